// What AddressSanitizer has to know of SystemC 2.3.4. Empty without gcc's -fsanitize=address.
#if defined(__SANITIZE_ADDRESS__)

#include <dlfcn.h>
#include <pthread.h>
#include <cstddef>

extern "C" void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
extern "C" int munmap(void* address, std::size_t size);
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_suppressions();

// SystemC announces each switch of stacks, but does not know the bounds of the thread's own stack and announces it as
// empty. An exception thrown there would leave the frames that it passes poisoned, which shows as false
// stack-use-after-scope. Programs that link this file announce the true bounds.
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size) {
  using Switch = void (*)(void**, const void*, std::size_t);
  static const auto next = reinterpret_cast<Switch>(dlsym(RTLD_NEXT, "__sanitizer_start_switch_fiber"));
  if (bottom == nullptr) {
    pthread_attr_t attributes;
    void* own = nullptr;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &own, &size);
      pthread_attr_destroy(&attributes);
      bottom = own;
    }
  }
  next(fake_stack, bottom, size);
}

// The stack of a process that never ends is unmapped with its frames, which stay poisoned; the next stack to be mapped
// there would inherit that, which shows as false stack-use-after-scope.
extern "C" int munmap(void* address, std::size_t size) {
  using Unmap = int (*)(void*, std::size_t);
  static const auto next = reinterpret_cast<Unmap>(dlsym(RTLD_NEXT, "munmap"));
  __asan_unpoison_memory_region(address, size);
  return next(address, size);
}

// The stack of a process that has ended is unmapped, and may still be what the leak check takes for the thread's: it
// then crashes now and then. At the end of a program no stack holds anything.
extern "C" const char* __lsan_default_options() { return "use_stacks=0"; }

// SystemC keeps its free list of timed notifications to the end of the process.
extern "C" const char* __lsan_default_suppressions() { return "leak:sc_core::sc_event_timed::allocate"; }

#endif
