"""What the front end has to tell, one function for each thing."""
