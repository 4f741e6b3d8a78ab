#pragma once

namespace vestige {

/// "major.minor.patch" of this build.
const char* version();

}  // namespace vestige
