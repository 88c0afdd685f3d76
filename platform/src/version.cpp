#include <kb/platform/version.h>

namespace kb {

const char* version() { return KB_VERSION; }

}  // namespace kb
