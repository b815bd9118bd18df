/* Between a server and its system: a disk that is slow to sync, and a clock that is off. Both are read from a file that
   the test writes to while the server runs: two numbers of 64 bits, in milliseconds. System calls are made directly, so
   nothing here depends on what it stands in for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
  int64_t sync_ms;
  int64_t clock_ms;
};

static volatile const struct faults *faults;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SIGNALBOX_FAULTS");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *at = mmap(NULL, sizeof(struct faults), PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) faults = at;
  close(file);
}

static void slow_down(void) {
  int64_t ms = faults ? faults->sync_ms : 0;
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (ms > 0 && nanosleep(&left, &left) != 0) continue;
}

int fsync(int file) {
  slow_down();
  return syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  slow_down();
  return syscall(SYS_fdatasync, file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  long failed = syscall(SYS_clock_gettime, clock, at);
  if (!failed && faults && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    at->tv_sec += faults->clock_ms / 1000;
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
