#pragma once

// Eigen with its products in OpenBLAS, for every file that uses it: of its templates the linker keeps one copy, so all
// must be compiled alike. These files are built for the least CPU; OpenBLAS picks its kernel at run time.

#define EIGEN_USE_BLAS
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wnull-dereference"
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#pragma GCC diagnostic pop

#include "backend/ops/blas_threads.h"
