/* The least work of a broker, without a protocol: what the kernel takes for the same bytes.
 *
 *   floor produce DIRECTORY LOG...   a child sends the batches of the logs in frames of one batch a log, at most five
 *                                    in flight; the parent receives each frame and writes its batches to files
 *   floor consume DIRECTORY LOG...   the parent sends ranges of whole batches, at most 1 MiB a log, with sendfile
 *                                    for each request of the child, which reads them
 *
 * Prints the processor time of the parent in ns, the elapsed time in ns, and the bytes of the logs.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LOGS = 64, IN_FLIGHT = 5, RANGE = 1 << 20, ANSWER = 64, BUFFER = 256 << 10 };

struct log {
    int fd;
    const uint8_t *bytes;
    off_t size, position;
};

static struct log logs[MAX_LOGS];
static int log_count;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void send_all(int to, const void *bytes, size_t length, int flags) {
    for (size_t done = 0; done < length;) {
        ssize_t count = send(to, (const char *)bytes + done, length - done, flags);
        if (count < 0) fail("send");
        done += count;
    }
}

/* Receive exactly `length` bytes; return 0 at the end of the stream. */
static int receive(int from, void *into, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = recv(from, (char *)into + done, length - done, 0);
        if (count < 0) fail("recv");
        if (count == 0) return 0;
        done += count;
    }
    return 1;
}

static uint32_t big_endian(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

/* The bytes of the batch that begins here: its base offset (8), its length (4), and what follows. */
static size_t batch_bytes(const uint8_t *at) { return 12 + big_endian(at + 8); }

static void send_frames(int to) {
    char answer[ANSWER];
    int in_flight = 0;
    for (;;) {
        struct iovec parts[MAX_LOGS + 1];
        uint32_t head[2] = {0, 0}; /* bytes of all batches, number of batches */
        int count = 1;
        size_t total = 0;
        for (int n = 0; n < log_count; n++) {
            struct log *log = &logs[n];
            if (log->position >= log->size) continue;
            size_t length = batch_bytes(log->bytes + log->position);
            parts[count++] = (struct iovec){(void *)(log->bytes + log->position), length};
            log->position += length;
            total += length;
        }
        if (count == 1) break;
        head[0] = total, head[1] = count - 1;
        parts[0] = (struct iovec){head, sizeof head};
        if (in_flight == IN_FLIGHT) receive(to, answer, ANSWER), in_flight--;
        for (int n = 0; n < count; n++)
            send_all(to, parts[n].iov_base, parts[n].iov_len, n + 1 < count ? MSG_MORE : 0);
        in_flight++;
    }
    while (in_flight--) receive(to, answer, ANSWER);
}

static void write_frames(int from, const char *directory) {
    static uint8_t *frame;
    size_t room = 0;
    uint32_t head[2];
    char answer[ANSWER] = {0}, path[4096];
    int files[MAX_LOGS];
    off_t ends[MAX_LOGS] = {0};
    for (int n = 0; n < log_count; n++) {
        snprintf(path, sizeof path, "%s/%d.log", directory, n);
        files[n] = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (files[n] < 0) fail(path);
    }
    while (receive(from, head, sizeof head)) {
        if (head[0] > room && !(frame = realloc(frame, room = head[0]))) fail("realloc");
        if (!receive(from, frame, head[0])) fail("a frame ended early");
        size_t at = 0;
        for (uint32_t n = 0; n < head[1]; n++) {
            size_t length = batch_bytes(frame + at);
            if (pwrite(files[n], frame + at, length, ends[n]) != (ssize_t)length) fail("pwrite");
            at += length;
            ends[n] += length;
        }
        send_all(from, answer, ANSWER, 0);
    }
}

static void send_ranges(int to) {
    char request[ANSWER];
    while (receive(to, request, ANSWER)) {
        off_t ends[MAX_LOGS];
        uint64_t total = 0;
        for (int n = 0; n < log_count; n++) {
            struct log *log = &logs[n];
            off_t end = log->position;
            while (end < log->size) {
                off_t next = end + batch_bytes(log->bytes + end);
                if (next - log->position > RANGE && end > log->position) break;
                end = next;
            }
            ends[n] = end;
            total += end - log->position;
        }
        send_all(to, &total, sizeof total, total ? MSG_MORE : 0);
        for (int n = 0; n < log_count; n++)
            while (logs[n].position < ends[n]) /* sendfile moves the position on */
                if (sendfile(to, logs[n].fd, &logs[n].position, ends[n] - logs[n].position) <= 0)
                    fail("sendfile");
    }
}

static void read_ranges(int from) {
    static char buffer[BUFFER];
    char request[ANSWER] = {0};
    uint64_t left;
    do {
        send_all(from, request, ANSWER, 0);
        if (!receive(from, &left, sizeof left)) fail("a response ended early");
        if (left == 0) return;
        while (left) {
            ssize_t count = recv(from, buffer, left < BUFFER ? left : BUFFER, 0);
            if (count <= 0) fail("recv");
            left -= count;
        }
        left = 1;
    } while (left);
}

static void open_log(const char *path) {
    struct log *log = &logs[log_count++];
    struct stat about;
    log->fd = open(path, O_RDONLY);
    if (log->fd < 0 || fstat(log->fd, &about) < 0) fail(path);
    log->size = about.st_size;
    if (log->size == 0) {
        close(log->fd);
        log_count--;
        return;
    }
    log->bytes = mmap(NULL, log->size, PROT_READ, MAP_SHARED, log->fd, 0);
    if (log->bytes == MAP_FAILED) fail(path);
    for (off_t at = 0; at < log->size; at += 4096) *(volatile const uint8_t *)(log->bytes + at);
}

int main(int count, char **words) {
    if (count < 4 || count - 3 > MAX_LOGS) return 2;
    int produces = strcmp(words[1], "produce") == 0;
    for (int n = 3; n < count; n++) open_log(words[n]);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (bind(listener, (void *)&at, length) || listen(listener, 1)) fail("listen");
    getsockname(listener, (void *)&at, &length);
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        int other = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(other, (void *)&at, length)) fail("connect");
        setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (produces) send_frames(other);
        else read_ranges(other);
        _exit(0);
    }
    int own = accept(listener, NULL, NULL), status;
    if (own < 0) fail("accept");
    setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    int64_t began = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), bytes = 0;
    if (produces) write_frames(own, words[2]);
    else send_ranges(own);
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    began = now(CLOCK_MONOTONIC) - began;
    for (int n = 0; n < log_count; n++) bytes += logs[n].size;
    if (waitpid(child, &status, 0) < 0 || status != 0) return 1;
    printf("%lld %lld %lld\n", (long long)cpu, (long long)began, (long long)bytes);
    return 0;
}
