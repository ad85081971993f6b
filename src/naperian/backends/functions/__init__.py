"""The elementary functions as LLVM IR."""
