#pragma once

namespace kb {

/// Version of the library, "major.minor.patch".
const char* version();

}  // namespace kb
