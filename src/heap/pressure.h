/* pressure.h: gives free memory back to the system before the heap asks for more. Layer 2. */
#ifndef WEFT_PRESSURE_H
#define WEFT_PRESSURE_H

#include "pages/pages.h"

/* The caller is about to use so many bytes that are not in memory: gives as many back, if too much is free beside what lives. Any
 * thread. */
void pressure_before(size_t bytes, enum pressure side);

#endif
