/* Makes every sync of a process slow: it sleeps for as many milliseconds as the file SLOW_SYNCS_FILE says at that
 * moment, and then syncs. A test changes the file while the process runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void linger(void) {
    const char *path = getenv("SLOW_SYNCS_FILE");
    char text[16] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    long ms = length > 0 ? strtol(text, NULL, 10) : 0;
    if (ms <= 0) return;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static int slowly(const char *name, int file) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    linger();
    return sync(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
