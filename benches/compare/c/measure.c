// Runs a command and writes what it took, as "exit-status wall-seconds user-seconds system-seconds peak-kilobytes", to a file.
// A small program for this, since the peak that the kernel tells of a process includes its parent's size before exec.
// measure FILE COMMAND…
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec / 1e6; }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (wait4(child, &status, 0, &used) != child) return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *file = fopen(argv[1], "w");
    if (!file) return 1;
    double wall = (end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e9;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    fprintf(file, "%d %.6f %.6f %.6f %ld\n", code, wall, seconds(used.ru_utime), seconds(used.ru_stime), used.ru_maxrss);
    return fclose(file);
}
