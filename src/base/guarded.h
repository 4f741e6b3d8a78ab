#pragma once

// The border of the library: what throws inside comes out as a Status.

#include <exception>
#include <new>

#include "vestige/status.h"

namespace vestige {

/// f(), which returns a Status or a Result. std::bad_alloc becomes OutOfMemory, anything else Internal.
/// The fixed sentences fit into a std::string without an allocation, which might fail as well.
template <class F>
auto guarded(F&& f) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& e) {
    try {
      return internal_error("%s", e.what());
    } catch (...) {
      return Status(StatusCode::kInternal, "exception");
    }
  } catch (...) {
    return Status(StatusCode::kInternal, "exception");
  }
}

}  // namespace vestige
