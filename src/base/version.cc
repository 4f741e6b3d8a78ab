#include "vestige/version.h"

namespace vestige {

const char* version() { return VESTIGE_VERSION; }

}  // namespace vestige
