/* The numbers of a peer that is measured in two precisions: -DREAL=float. */
#include <tgmath.h>
#ifndef REAL
#define REAL double
#endif
typedef REAL real;
