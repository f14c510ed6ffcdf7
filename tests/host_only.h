/* host_only.h - whether tests leave out every device but the host. */
#ifndef TESTS_HOST_ONLY_H
#define TESTS_HOST_ONLY_H

#include <stdbool.h>

/* ThreadSanitizer sees nothing of what drivers do that were built without it. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
static const bool host_only = true;
#else
static const bool host_only = false;
#endif

/* AddressSanitizer sees what is given to drivers, for which the tests of devices are enough: models run on the host alone,
 * where it sees the kernels as well. */
#ifdef __SANITIZE_ADDRESS__
#define MODELS_HOST_ONLY true
#else
#define MODELS_HOST_ONLY host_only
#endif

#endif
