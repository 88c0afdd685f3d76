#include <kb/traces/trace_filter.h>

#include <fnmatch.h>

namespace kb {

bool TraceFilter::covers(const std::string& name) const {
  return scope == "*" || ::fnmatch(scope.c_str(), name.c_str(), 0) == 0;
}

}  // namespace kb
