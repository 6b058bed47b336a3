/* The least a broker must do, in C: what the machine allows.
 *
 *     floor PORT [body N] [sync] [slave PORT]
 *     floor PORT receiver
 *
 * One thread, epoll. It cuts frames, reads headers, writes records with their CRC into a mapped log and an entry into a queue,
 * answers; pulls join records that lie side by side; a pull for which there is nothing yet waits. No index, no statistics, no
 * checks. Topics are not told apart, queues are. 105 is answered with a body of N bytes. sync: one fdatasync for all that a
 * turn of the loop brought, then the answers. slave: what a turn brought goes to a receiver, which reports it, then the
 * answers. The log is LOG_SIZE long and begins again when it is full, so nothing old must be pulled then.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { SEND = 310, BATCH = 320, PULL = 11, END_TRANSACTION = 37, ROUTE = 105, MAX_OFFSET = 30 };
#define LOG_SIZE (256ull << 20)
#define QUEUES 64
#define QUEUE_ENTRIES (1u << 21)
#define MOST_BYTES (256 << 10)
#define POPULATE_WRITE 23

struct connection {
    int fd, waits_for;
    size_t in_size, in_length, out_size, out_length;
    uint8_t *in, *out;
    uint64_t wanted;
    uint32_t opaque, most;
};
struct entry { uint64_t at; uint32_t size; };

static uint8_t *stored;
static int log_file, synced, slave = -1;
static uint64_t log_end, told;
static struct entry *queues[QUEUES];
static uint64_t queue_end[QUEUES];
static struct connection *waiting[QUEUES][16], *changed[4096];
static int waiting_count[QUEUES], changed_count;
static size_t route_size = 0;
static uint8_t *route_body;

static void put16(uint8_t *at, uint16_t v) { v = __builtin_bswap16(v); memcpy(at, &v, 2); }
static void put32(uint8_t *at, uint32_t v) { v = __builtin_bswap32(v); memcpy(at, &v, 4); }
static void put64(uint8_t *at, uint64_t v) { v = __builtin_bswap64(v); memcpy(at, &v, 8); }
static uint16_t get16(const uint8_t *at) { uint16_t v; memcpy(&v, at, 2); return __builtin_bswap16(v); }
static uint32_t get32(const uint8_t *at) { uint32_t v; memcpy(&v, at, 4); return __builtin_bswap32(v); }
static void die(const char *what) { perror(what); exit(1); }

static const char *find(const uint8_t *header, size_t length, const char *name) {
    const char *at = memmem(header, length, name, strlen(name));
    return at ? at + strlen(name) : "0";
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void write_all(int fd, const uint8_t *data, size_t length) {
    while (length) {
        ssize_t written = write(fd, data, length);
        if (written < 0) {
            if (errno != EAGAIN) return;
            struct pollfd ready = {fd, POLLOUT, 0};
            poll(&ready, 1, -1);
            continue;
        }
        data += written, length -= (size_t)written;
    }
}

static uint8_t *room(struct connection *c, size_t wanted) {
    if (c->out_length + wanted > c->out_size) c->out = realloc(c->out, c->out_size = (c->out_length + wanted) * 2);
    return c->out + c->out_length;
}

/* --- the log --- */

/* Properties of a JSON header: \u0001 and its like are one byte each. */
static uint16_t unescape(uint8_t *to, const char *from) {
    uint8_t *at = to;
    for (; *from != '"'; at++) {
        if (*from == '\\') { *at = (uint8_t)(from[5] - '0'); from += 6; }
        else *at = (uint8_t)*from++;
    }
    return (uint16_t)(at - to);
}

struct message { const uint8_t *body, *topic, *properties; uint32_t body_length; uint8_t topic_length; int escaped; uint16_t properties_length; uint64_t born; };

static struct entry append(const struct message *m, int queue) {
    if (log_end + m->body_length + 8192 > LOG_SIZE) log_end = told = 0;
    uint8_t *record = stored + log_end, *at = record + 84;
    put32(at, m->body_length);
    memcpy(at + 4, m->body, m->body_length);
    at += 4 + m->body_length;
    *at++ = m->topic_length;
    memcpy(at, m->topic, m->topic_length);
    at += m->topic_length;
    uint16_t length = m->properties_length;
    if (m->escaped) length = unescape(at + 2, (const char *)m->properties);
    else memcpy(at + 2, m->properties, length);
    put16(at, length);
    at += 2 + length;
    struct entry entry = {log_end, (uint32_t)(at - record)};
    uint64_t ms = now_ms();
    put32(record, entry.size);
    put32(record + 4, 0xDAA320A7);
    put32(record + 8, (uint32_t)crc32(0, m->body, m->body_length) & 0x7fffffff);
    put32(record + 12, (uint32_t)queue);
    put32(record + 16, 0);
    put64(record + 20, queue_end[queue]);
    put64(record + 28, log_end);
    put32(record + 36, 0);
    put64(record + 40, m->born);
    put64(record + 48, 0x7f00000100002a9full);
    put64(record + 56, ms);
    put64(record + 64, 0x7f00000100002a9full);
    put32(record + 72, 0);
    put64(record + 76, 0);
    queues[queue][queue_end[queue]++ % QUEUE_ENTRIES] = entry;
    log_end += entry.size;
    return entry;
}

/* --- answers --- */

static void answer(struct connection *c, uint32_t opaque, int is_binary, const char *fields, const uint8_t *body, size_t size) {
    uint8_t *at = room(c, size + 1024);
    uint32_t length;
    if (is_binary) {
        uint8_t *h = at + 8;
        put16(h, 0), h[2] = 0, put16(h + 3, 401), put32(h + 5, opaque), put32(h + 9, 1), put32(h + 13, 0);
        uint8_t *ext = h + 21;
        for (const char *name = fields; *name == '"';) { /* "name":"value", ... becomes 2 name 4 value */
            const char *end = strchr(name + 1, '"'), *value = end + 3, *value_end = strchr(value, '"');
            put16(ext, (uint16_t)(end - name - 1)), memcpy(ext + 2, name + 1, (size_t)(end - name - 1)), ext += end - name + 1;
            put32(ext, (uint32_t)(value_end - value)), memcpy(ext + 4, value, (size_t)(value_end - value));
            ext += 4 + (value_end - value), name = value_end + 1 + (value_end[1] == ',');
        }
        put32(h + 17, (uint32_t)(ext - h - 21));
        length = (uint32_t)(ext - h);
    } else {
        length = (uint32_t)sprintf((char *)at + 8,
                                   "{\"code\":0,\"extFields\":{%s},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%u,"
                                   "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":401}", fields, opaque);
    }
    put32(at, length + 4 + (uint32_t)size);
    put32(at + 4, length | (is_binary ? 1u << 24 : 0));
    if (body) memcpy(at + 8 + length, body, size);
    c->out_length += 8 + length + size;
}

static void answer_stored(struct connection *c, uint32_t opaque, int is_binary, int queue, uint64_t offset, uint64_t at) {
    char fields[256];
    sprintf(fields, "\"queueId\":\"%d\",\"TRACE_ON\":\"true\",\"MSG_REGION\":\"DefaultRegion\",\"msgId\":"
            "\"7F00000100002A9F%016lX\",\"queueOffset\":\"%lu\"", queue, at, offset);
    answer(c, opaque, is_binary, fields, NULL, 0);
}

/* 0: there is nothing yet. */
static int answer_pull(struct connection *c, uint32_t opaque, int queue, uint64_t offset, uint32_t most) {
    if (offset >= queue_end[queue]) return 0;
    char fields[256];
    uint64_t last = offset, bytes = 0;
    for (; last < queue_end[queue] && last - offset < most; last++) {
        uint32_t size = queues[queue][last % QUEUE_ENTRIES].size;
        if (bytes && bytes + size > MOST_BYTES) break;
        bytes += size;
    }
    sprintf(fields, "\"nextBeginOffset\":\"%lu\",\"minOffset\":\"0\",\"maxOffset\":\"%lu\",\"suggestWhichBrokerId\":\"0\"", last,
            queue_end[queue]);
    answer(c, opaque, 0, fields, NULL, bytes);
    uint8_t *to = c->out + c->out_length - bytes;
    for (uint64_t n = offset; n < last;) {
        struct entry run = queues[queue][n++ % QUEUE_ENTRIES];
        for (; n < last && queues[queue][n % QUEUE_ENTRIES].at == run.at + run.size; n++)
            run.size += queues[queue][n % QUEUE_ENTRIES].size;
        memcpy(to, stored + run.at, run.size);
        to += run.size;
    }
    return 1;
}

/* --- requests --- */

static void send_json(struct connection *c, uint32_t opaque, const uint8_t *h, size_t hl, const uint8_t *body, uint32_t size, int is_batch) {
    const char *topic = find(h, hl, "\"b\":\""), *properties = find(h, hl, "\"i\":\"");
    int queue = atoi(find(h, hl, "\"e\":\"")) & (QUEUES - 1);
    struct message m = {.topic = (const uint8_t *)topic, .topic_length = (uint8_t)(strchr(topic, '"') - topic),
                        .born = strtoull(find(h, hl, "\"g\":\""), NULL, 10)};
    uint64_t first = queue_end[queue], at = log_end;
    if (!is_batch) {
        m.body = body, m.body_length = size, m.properties = (const uint8_t *)properties, m.escaped = 1;
        at = append(&m, queue).at;
    }
    for (const uint8_t *item = body; is_batch && item < body + size; item += get32(item)) {
        m.body_length = get32(item + 16), m.body = item + 20, m.properties = m.body + m.body_length + 2;
        m.properties_length = get16(m.properties - 2);
        append(&m, queue);
    }
    answer_stored(c, opaque, 0, queue, first, at);
}

static void send_binary(struct connection *c, const uint8_t *h, size_t hl, const uint8_t *body, uint32_t size) {
    struct message m = {.body = body, .body_length = size};
    int queue = 0;
    for (const uint8_t *at = h + 21; at < h + hl;) {
        uint16_t name = get16(at);
        uint32_t length = get32(at + 2 + name);
        const uint8_t *value = at + 6 + name;
        switch (at[2]) {
        case 'b': m.topic = value, m.topic_length = (uint8_t)length; break;
        case 'e': queue = atoi((const char *)value) & (QUEUES - 1); break;
        case 'g': m.born = strtoull((const char *)value, NULL, 10); break;
        case 'i': m.properties = value, m.properties_length = (uint16_t)length; break;
        }
        at = value + length;
    }
    struct entry stored_as = append(&m, queue);
    answer_stored(c, get32(h + 5), 1, queue, queue_end[queue] - 1, stored_as.at);
}

/* The half message becomes a message, and a small record says that it is decided. */
static void end_transaction(struct connection *c, uint32_t opaque, const uint8_t *h, size_t hl) {
    const uint8_t *half = stored + strtoull(find(h, hl, "\"commitLogOffset\":\""), NULL, 10), *rest;
    struct message m = {.body = half + 88, .body_length = get32(half + 84)};
    rest = m.body + m.body_length;
    m.topic_length = *rest, m.topic = rest + 1, m.properties = m.topic + m.topic_length + 2;
    m.properties_length = get16(m.properties - 2);
    append(&m, 1);
    struct message done = {.body = half + 20, .body_length = 8, .topic = m.topic, .topic_length = m.topic_length,
                           .properties = (const uint8_t *)"TAGS\x01""d", .properties_length = 6};
    append(&done, 2);
    if (strtol(find(h, hl, "\"flag\":"), NULL, 10) == 0) answer(c, opaque, 0, "", NULL, 0);
}

static void pull(struct connection *c, uint32_t opaque, const uint8_t *h, size_t hl) {
    int queue = atoi(find(h, hl, "\"queueId\":\"")) & (QUEUES - 1);
    uint64_t offset = strtoull(find(h, hl, "\"queueOffset\":\""), NULL, 10);
    uint32_t most = (uint32_t)atoi(find(h, hl, "\"maxMsgNums\":\""));
    if (answer_pull(c, opaque, queue, offset, most)) return;
    c->wanted = offset, c->opaque = opaque, c->most = most;
    if (waiting_count[queue] < 16) waiting[queue][waiting_count[queue]++] = c;
}

static void max_offset(struct connection *c, uint32_t opaque, const uint8_t *h, size_t hl) {
    char fields[64];
    sprintf(fields, "\"offset\":\"%lu\"", queue_end[atoi(find(h, hl, "\"queueId\":\"")) & (QUEUES - 1)]);
    answer(c, opaque, 0, fields, NULL, 0);
}

static void serve(struct connection *c, const uint8_t *frame, uint32_t length) {
    uint32_t mark = get32(frame + 4), hl = mark & 0xffffff;
    const uint8_t *h = frame + 8, *body = h + hl;
    uint32_t size = length - 4 - hl;
    if (mark >> 24) { send_binary(c, h, hl, body, size); return; }
    uint32_t opaque = (uint32_t)strtoul(find(h, hl, "\"opaque\":"), NULL, 10);
    int code = atoi(find(h, hl, "\"code\":"));
    if (code == SEND || code == BATCH) send_json(c, opaque, h, hl, body, size, code == BATCH);
    else if (code == PULL) pull(c, opaque, h, hl);
    else if (code == END_TRANSACTION) end_transaction(c, opaque, h, hl);
    else if (code == MAX_OFFSET) max_offset(c, opaque, h, hl);
    else answer(c, opaque, 0, "", route_body, code == ROUTE ? route_size : 0);
}

/* --- the loop --- */

static void flush_out(struct connection *c) {
    write_all(c->fd, c->out, c->out_length);
    c->out_length = 0;
}

/* Returns 0 when the connection is gone. */
static int readable(struct connection *c) {
    if (c->in_size - c->in_length < 1 << 16) c->in = realloc(c->in, c->in_size *= 2);
    ssize_t count = read(c->fd, c->in + c->in_length, c->in_size - c->in_length);
    if (count <= 0) return count < 0 && errno == EAGAIN;
    c->in_length += (size_t)count;
    size_t at = 0;
    while (c->in_length - at >= 8) {
        uint32_t length = get32(c->in + at);
        if (c->in_length - at < 4 + (size_t)length) {
            if (length + 4 > c->in_size) c->in = realloc(c->in, c->in_size = length + (1 << 17));
            break;
        }
        serve(c, c->in + at, length);
        at += 4 + (size_t)length;
    }
    if (at) memmove(c->in, c->in + at, c->in_length -= at);
    return 1;
}

static void gone(struct connection *c) {
    for (int q = 0; q < QUEUES; q++)
        for (int i = 0; i < waiting_count[q]; i++)
            if (waiting[q][i] == c) waiting[q][i--] = waiting[q][--waiting_count[q]];
    close(c->fd);
    free(c->in), free(c->out), free(c);
}

static void end_turn(void) {
    if (synced && changed_count) fdatasync(log_file);
    if (slave >= 0 && log_end > told) {
        uint8_t head[12], report[8];
        put64(head, told), put32(head + 8, (uint32_t)(log_end - told));
        write_all(slave, head, 12);
        write_all(slave, stored + told, log_end - told);
        for (size_t got = 0; got < 8;) {
            ssize_t count = read(slave, report + got, 8 - got);
            if (count <= 0) die("slave");
            got += (size_t)count;
        }
        told = log_end;
    }
    for (int i = 0; i < changed_count; i++) flush_out(changed[i]);
    changed_count = 0;
    for (int q = 0; q < QUEUES; q++) {
        for (int i = 0; i < waiting_count[q]; i++) {
            struct connection *c = waiting[q][i];
            if (!answer_pull(c, c->opaque, q, c->wanted, c->most)) continue;
            waiting[q][i--] = waiting[q][--waiting_count[q]];
            flush_out(c);
        }
    }
}

static int connect_to(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    return fd;
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1024)) die("listen");
    return fd;
}

/* The slave of a floor: what comes goes into a mapping, how far it is goes back. */
static void receive(int listener) {
    uint8_t *copy = mmap(NULL, LOG_SIZE + (16 << 20), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t head[12], report[8];
    for (;;) {
        int fd = accept(listener, NULL, NULL), one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (recv(fd, head, 12, MSG_WAITALL) == 12) {
            uint64_t at;
            memcpy(&at, head, 8), at = __builtin_bswap64(at);
            uint32_t size = get32(head + 8);
            if (recv(fd, copy + at, size, MSG_WAITALL) != (ssize_t)size) break;
            put64(report, at + size);
            write_all(fd, report, 8);
        }
        close(fd);
    }
}

static void open_log(void) {
    char name[] = "floor-XXXXXX";
    log_file = mkstemp(name);
    unlink(name);
    if (ftruncate(log_file, (off_t)LOG_SIZE)) die("ftruncate");
    stored = mmap(NULL, LOG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, log_file, 0);
    posix_fallocate(log_file, 0, (off_t)LOG_SIZE);
    if (!synced) madvise(stored, LOG_SIZE, POPULATE_WRITE); /* a broker has its pages touched ahead */
    for (int q = 0; q < QUEUES; q++)
        queues[q] = mmap(NULL, QUEUE_ENTRIES * sizeof(struct entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int count, char **arguments) {
    int port = atoi(arguments[1]), listener = listen_on(port), poller = epoll_create1(0), one = 1;
    for (int i = 2; i < count; i++) {
        if (!strcmp(arguments[i], "receiver")) receive(listener);
        if (!strcmp(arguments[i], "sync")) synced = 1;
        if (!strcmp(arguments[i], "slave")) slave = connect_to(atoi(arguments[++i]));
        else if (!strcmp(arguments[i], "body")) route_body = calloc(1, route_size = (size_t)atol(arguments[++i]));
    }
    open_log();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    int at_once = !synced && slave < 0;
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int ready = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                c = calloc(1, sizeof *c);
                c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                c->in = malloc(c->in_size = 1 << 18), c->out = malloc(c->out_size = 1 << 16);
                event.data.ptr = c;
                epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
            } else if (!readable(c)) gone(c);
            else if (at_once) flush_out(c);
            else if (c->out_length && changed_count < 4096) changed[changed_count++] = c;
        }
        end_turn();
    }
}
