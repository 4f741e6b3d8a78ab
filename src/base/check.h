#pragma once

// A check of our own reasoning, never of input. Active in debug and sanitizer builds only.

#include <cstdlib>

#ifdef VESTIGE_ENABLE_CHECKS
#define VESTIGE_CHECK(condition) ((condition) ? (void)0 : std::abort())
#else
#define VESTIGE_CHECK(condition) ((void)0)
#endif
