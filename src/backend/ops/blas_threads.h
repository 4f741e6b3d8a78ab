#pragma once

namespace vestige {

/// OpenBLAS keeps to the calling thread from now on: our pool owns the cores, and bits may not depend on how many
/// threads a product was cut for. Every caller of BLAS calls it first; only the first call does something.
void use_one_blas_thread();

}  // namespace vestige
