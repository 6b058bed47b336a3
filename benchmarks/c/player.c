/* Plays frames that Python has made over real sockets, as fast as the peer answers or at a given rate.
 *
 * Loaded by benchmarks/harness/play_c.py through ctypes; gcc builds it on first use. Every function that can fail returns -1
 * and leaves the reason in result.problem (player_open: NULL and errno). Three exchanges:
 *
 *   player_play      every connection keeps a window of frames on their way, one after the other from the list
 *   player_transact  every connection sends a half message, and ends its transaction as the answer says where it is
 *   player_relay     some connections send, others hold a pull: the way of a message from end to end
 *
 * An answer must have code 0 and the opaque of a frame that is on its way over that connection. Frames carry fixed opaques,
 * FIRST_OPAQUE + their place in the list. What has to be new in every frame (unique keys) is eight hexadecimal digits.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FIRST_OPAQUE 100000
#define PULL_OPAQUE 99999
#define END_OPAQUE 99998
#define PATIENCE_MS 10000
#define SECOND 1000000000ull
#define LEAST_RECORD 91
enum { NOT_FOUND = 19, RETRY_AT_ONCE = 20 };

struct result {
    uint64_t answers, messages, errors, bytes;
    double seconds, p50_us, p99_us, p999_us, max_us;
    char problem[256];
};

struct connection {
    int fd, wants_write;
    uint8_t *in, *out;
    size_t in_size, in_length, out_size, out_length, out_done;
    uint64_t *sent_at; /* by place in the list; 0: not on its way */
    uint32_t next;
    uint64_t offset; /* relay: of the next pull */
    int queue;
};

struct player {
    int epoll, count, started;
    struct connection *connections;
    uint8_t *frames;
    size_t *starts;
    uint32_t *keys, *key_starts; /* places of digits in a frame; those of frame i are keys[key_starts[i] .. [i + 1]] */
    uint32_t frame_count, messages_each;
    uint64_t key, sent, received, histogram[64 * 64], samples;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}
static uint32_t get32(const uint8_t *at) { uint32_t v; memcpy(&v, at, 4); return __builtin_bswap32(v); }
static uint64_t get64(const uint8_t *at) { uint64_t v; memcpy(&v, at, 8); return __builtin_bswap64(v); }
static void put32(uint8_t *at, uint32_t v) { v = __builtin_bswap32(v); memcpy(at, &v, 4); }

static int fail(struct result *result, const char *what) {
    snprintf(result->problem, sizeof result->problem, "%s", what);
    return -1;
}

/* --- latencies: 64 steps for each power of two --- */

static void sample(struct player *p, uint64_t ns) {
    int power = ns < 64 ? 0 : 63 - __builtin_clzll(ns) - 5;
    uint64_t step = ns < 64 ? ns : (ns >> (power - 1)) & 63;
    p->histogram[power * 64 + (int)step]++;
    p->samples++;
}

static double quantile_us(const struct player *p, double share) {
    uint64_t wanted = (uint64_t)((double)p->samples * share), seen = 0;
    for (int i = 0; i < 64 * 64; i++) {
        seen += p->histogram[i];
        if (seen > wanted) {
            int power = i / 64;
            uint64_t step = (uint64_t)(i % 64);
            return (double)(power == 0 ? step : (64 + step) << (power - 1)) / 1000.0;
        }
    }
    return 0;
}

static void begin(struct player *p, struct result *result) {
    memset(result, 0, sizeof *result);
    memset(p->histogram, 0, sizeof p->histogram);
    p->samples = 0;
}

static void end(const struct player *p, struct result *result, uint64_t from) {
    result->seconds = (double)(now_ns() - from) / 1e9;
    result->p50_us = quantile_us(p, 0.5);
    result->p99_us = quantile_us(p, 0.99);
    result->p999_us = quantile_us(p, 0.999);
    result->max_us = quantile_us(p, 1 - 1e-9);
}

/* --- connections --- */

struct player *player_open(const char *host, int port, int count) {
    struct player *p = calloc(1, sizeof *p);
    p->epoll = epoll_create1(0);
    p->connections = calloc((size_t)count, sizeof *p->connections);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    for (int i = 0; i < count; i++) {
        struct connection *c = &p->connections[i];
        int one = 1;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address)) return NULL;
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        c->in = malloc(c->in_size = 1 << 18);
        c->out = malloc(c->out_size = 1 << 16);
        c->queue = i;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(p->epoll, EPOLL_CTL_ADD, c->fd, &event);
        p->count = i + 1;
    }
    return p;
}

void player_close(struct player *p) {
    for (int i = 0; i < p->count; i++) {
        close(p->connections[i].fd);
        free(p->connections[i].in);
        free(p->connections[i].out);
        free(p->connections[i].sent_at);
    }
    close(p->epoll);
    free(p->connections), free(p->frames), free(p->starts), free(p->keys), free(p->key_starts), free(p);
}

/* The list of frames; messages_each: what an answer counts for, 0: the records in its body are counted. */
void player_frames(struct player *p, const uint8_t *frames, const uint32_t *lengths, uint32_t count, const uint32_t *keys,
                   const uint32_t *key_starts, uint32_t messages_each) {
    size_t total = 0;
    p->starts = malloc((count + 1) * sizeof *p->starts);
    for (uint32_t i = 0; i < count; i++) { p->starts[i] = total; total += lengths[i]; }
    p->starts[count] = total;
    p->frames = malloc(total);
    memcpy(p->frames, frames, total);
    p->key_starts = malloc((count + 1) * sizeof *p->key_starts);
    memcpy(p->key_starts, key_starts, (count + 1) * sizeof *p->key_starts);
    p->keys = malloc((key_starts[count] + 1) * sizeof *p->keys);
    memcpy(p->keys, keys, key_starts[count] * sizeof *p->keys);
    p->frame_count = count;
    p->messages_each = messages_each;
    for (int i = 0; i < p->count; i++) {
        p->connections[i].sent_at = calloc(count, sizeof(uint64_t));
        p->connections[i].next = (uint32_t)((uint64_t)i * count / (uint64_t)p->count);
    }
}

static uint8_t *room(struct connection *c, size_t wanted) {
    if (c->out_length + wanted > c->out_size) c->out = realloc(c->out, c->out_size = (c->out_length + wanted) * 2);
    return c->out + c->out_length;
}

/* Put the next frame of the list behind what is to be written; its place in the list. */
static uint32_t put_frame(struct player *p, struct connection *c, uint64_t at) {
    static const char hex[] = "0123456789ABCDEF";
    uint32_t place = c->next;
    uint8_t *frame = p->frames + p->starts[place];
    size_t length = p->starts[place + 1] - p->starts[place];
    for (uint32_t k = p->key_starts[place]; k < p->key_starts[place + 1]; k++) {
        uint64_t key = p->key++;
        for (int digit = 0; digit < 8; digit++) frame[p->keys[k] + (uint32_t)digit] = (uint8_t)hex[key >> (28 - 4 * digit) & 15];
    }
    memcpy(room(c, length), frame, length);
    c->out_length += length;
    c->sent_at[place] = at;
    c->next = place + 1 == p->frame_count ? 0 : place + 1;
    return place;
}

/* A frame with a header that is made now. */
static void put_header(struct connection *c, const char *header, size_t length) {
    uint8_t *at = room(c, length + 8);
    put32(at, (uint32_t)length + 4);
    put32(at + 4, (uint32_t)length);
    memcpy(at + 8, header, length);
    c->out_length += length + 8;
}

static int flush_out(struct player *p, struct connection *c) {
    while (c->out_done < c->out_length) {
        ssize_t written = write(c->fd, c->out + c->out_done, c->out_length - c->out_done);
        if (written < 0) { if (errno == EAGAIN) break; return -1; }
        c->out_done += (size_t)written;
    }
    int more = c->out_done < c->out_length;
    if (!more) c->out_length = c->out_done = 0;
    if (more != c->wants_write) {
        struct epoll_event event = {.events = EPOLLIN | (more ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(p->epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->wants_write = more;
    }
    return 0;
}

static int read_in(struct connection *c, struct result *result) {
    if (c->in_size - c->in_length < 1 << 16) c->in = realloc(c->in, c->in_size *= 2);
    ssize_t count = read(c->fd, c->in + c->in_length, c->in_size - c->in_length);
    if (count < 0) return errno == EAGAIN ? 0 : fail(result, strerror(errno));
    if (count == 0) return fail(result, "the server closed the connection");
    c->in_length += (size_t)count;
    result->bytes += (uint64_t)count;
    return 0;
}

/* --- answers --- */

struct answer { const uint8_t *header, *body; size_t header_length, body_length; long code; uint32_t opaque; };

static long field(const uint8_t *header, size_t length, const char *name, int base) {
    const uint8_t *at = memmem(header, length, name, strlen(name));
    if (!at) return -999;
    at += strlen(name);
    return strtol((const char *)at + (*at == '"'), NULL, base);
}

/* The frame at this place of what was read; its length with the four bytes of the length, 0: not whole yet. */
static size_t next_answer(struct connection *c, size_t place, struct answer *a) {
    if (c->in_length - place < 8) return 0;
    uint8_t *frame = c->in + place;
    size_t length = (size_t)get32(frame) + 4;
    if (c->in_length - place < length) {
        if (length > c->in_size) c->in = realloc(c->in, c->in_size = length + (1 << 16));
        return 0;
    }
    a->header_length = get32(frame + 4) & 0xffffff;
    a->header = frame + 8;
    a->body = a->header + a->header_length;
    a->body_length = length - 8 - a->header_length;
    if (frame[4] == 1) {
        a->code = (int16_t)(a->header[0] << 8 | a->header[1]);
        a->opaque = get32(a->header + 5);
    } else {
        a->code = field(a->header, a->header_length, "\"code\":", 10);
        a->opaque = (uint32_t)field(a->header, a->header_length, "\"opaque\":", 10);
    }
    return length;
}

static void consumed(struct connection *c, size_t count) {
    if (!count) return;
    memmove(c->in, c->in + count, c->in_length - count);
    c->in_length -= count;
}

static void bad_answer(const struct answer *a, struct result *result) {
    if (!result->errors++)
        snprintf(result->problem, sizeof result->problem, "answer with code %ld: %.*s", a->code, (int)a->header_length,
                 (const char *)a->header);
}

static uint64_t records(const struct answer *a, struct result *result) {
    uint64_t count = 0;
    for (size_t at = 0; at + 4 <= a->body_length; count++) {
        uint32_t size = get32(a->body + at);
        if (size < LEAST_RECORD || at + size > a->body_length) { bad_answer(a, result); break; }
        at += size;
    }
    return count;
}

/* Whether this answers a frame of the list; how long it took is taken down. */
static int is_expected(struct player *p, struct connection *c, const struct answer *a, uint64_t at, struct result *result) {
    uint32_t place = a->opaque - FIRST_OPAQUE;
    if (a->code != 0 || place >= p->frame_count || !c->sent_at[place]) { bad_answer(a, result); return 0; }
    sample(p, at - c->sent_at[place]);
    c->sent_at[place] = 0;
    return 1;
}

/* epoll_wait that asks again and again instead of sleeping. */
static int ready_soon(struct player *p, struct epoll_event *events, int most) {
    uint64_t until = now_ns() + (uint64_t)PATIENCE_MS * 1000000;
    int ready = 0;
    while (ready == 0 && now_ns() < until) ready = epoll_wait(p->epoll, events, most, 0);
    return ready;
}

/* --- every connection keeps a window of frames on their way --- */

/* awake: looks for answers without ever going to sleep, so that nobody has to wake it. */
int player_play(struct player *p, int window, int awake, double seconds, struct result *result) {
    begin(p, result);
    uint64_t from = now_ns(), until = from + (uint64_t)(seconds * 1e9), at = from;
    if (!p->started) {
        p->started = 1;
        for (int i = 0; i < p->count; i++) {
            for (int k = 0; k < window; k++) put_frame(p, &p->connections[i], from);
            if (flush_out(p, &p->connections[i])) return fail(result, strerror(errno));
        }
    }
    struct epoll_event events[256];
    while (at < until) {
        int ready = awake ? ready_soon(p, events, 256) : epoll_wait(p->epoll, events, 256, PATIENCE_MS);
        if (ready == 0) return fail(result, "no answer for ten seconds");
        at = now_ns();
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                if (read_in(c, result)) return -1;
                at = now_ns();
                struct answer a;
                size_t place = 0, length;
                for (; (length = next_answer(c, place, &a)); place += length) {
                    is_expected(p, c, &a, at, result);
                    result->answers++;
                    result->messages += p->messages_each ? p->messages_each : records(&a, result);
                    put_frame(p, c, at);
                }
                consumed(c, place);
                if (result->errors > 1000) return -1;
            }
            if (flush_out(p, c)) return fail(result, strerror(errno));
        }
    }
    end(p, result, from);
    return 0;
}

/* --- half messages and the ends of their transactions --- */

/* end_format: a header with two %llu, the commit log offset and the queue offset. An answer to it is waited for, or (oneway)
 * the next half message goes out with it. One transaction counts as one message, from half message to half message. */
int player_transact(struct player *p, const char *end_format, int oneway, double seconds, struct result *result) {
    begin(p, result);
    uint64_t from = now_ns(), until = from + (uint64_t)(seconds * 1e9), at = from;
    char header[2048];
    if (!p->started) {
        p->started = 1;
        for (int i = 0; i < p->count; i++) {
            put_frame(p, &p->connections[i], from);
            if (flush_out(p, &p->connections[i])) return fail(result, strerror(errno));
        }
    }
    struct epoll_event events[256];
    while (at < until) {
        int ready = epoll_wait(p->epoll, events, 256, PATIENCE_MS);
        if (ready == 0) return fail(result, "no answer for ten seconds");
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (read_in(c, result)) return -1;
            at = now_ns();
            struct answer a;
            size_t place = 0, length;
            for (; (length = next_answer(c, place, &a)); place += length) {
                result->answers++;
                int is_end = a.opaque == END_OPAQUE;
                if (is_end && a.code != 0) bad_answer(&a, result);
                if (!is_end && is_expected(p, c, &a, at, result)) {
                    const uint8_t *id = memmem(a.header, a.header_length, "\"msgId\":\"", 9);
                    if (!id) return fail(result, "an answer without msgId");
                    char hex[17] = {0};
                    memcpy(hex, id + 9 + 16, 16);
                    long queue_offset = field(a.header, a.header_length, "\"queueOffset\":", 10);
                    put_header(c, header, (size_t)snprintf(header, sizeof header, end_format, strtoull(hex, NULL, 16),
                                                           (unsigned long long)queue_offset));
                }
                if (is_end || oneway) {
                    result->messages++;
                    put_frame(p, c, at);
                }
                if (result->errors > 1000) return -1;
            }
            consumed(c, place);
            if (flush_out(p, c)) return fail(result, strerror(errno));
        }
    }
    end(p, result, from);
    return 0;
}

/* --- from end to end --- */

static void pull(struct connection *c, const char *format) {
    char header[2048];
    put_header(c, header, (size_t)snprintf(header, sizeof header, format, c->queue, (unsigned long long)c->offset));
}

/* What a pull brought: bodies begin with the moment that they were to be sent at. */
static void take_records(struct player *p, struct connection *c, const struct answer *a, uint64_t from, struct result *result) {
    uint64_t at = now_ns();
    for (size_t place = 0; place + LEAST_RECORD <= a->body_length; place += get32(a->body + place)) {
        const uint8_t *record = a->body + place;
        uint64_t sent;
        memcpy(&sent, record + 88, 8);
        c->offset = get64(record + 20) + 1;
        p->received++;
        if (sent >= from) { sample(p, at - sent); result->messages++; }
    }
}

/* Where consumers begin, by queue. */
void player_offsets(struct player *p, int senders, const uint64_t *offsets) {
    for (int i = senders; i < p->count; i++) {
        p->connections[i].queue = i - senders;
        p->connections[i].offset = offsets[i - senders];
    }
}

static void stamp(struct player *p, struct connection *c, uint32_t place, uint64_t at) {
    size_t length = p->starts[place + 1] - p->starts[place];
    uint8_t *frame = c->out + c->out_length - length;
    memcpy(frame + 8 + (get32(frame + 4) & 0xffffff), &at, 8);
}

/* The first connections send, at a rate (messages a second) or, with rate 0, so that never more than window messages are on
 * their way; each of the others reads one queue. pull_format: a header with %d and %llu, queue id and offset. */
int player_relay(struct player *p, int senders, const char *pull_format, double rate, int window, double seconds,
                 struct result *result) {
    begin(p, result);
    uint64_t from = now_ns(), until = from + (uint64_t)(seconds * 1e9), patience = until + 2 * SECOND, due = 0;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), sender = 0;
    struct epoll_event events[256], ticking = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(p->epoll, EPOLL_CTL_ADD, timer, &ticking);
    if (!p->started) {
        p->started = 1;
        for (int i = senders; i < p->count; i++) {
            pull(&p->connections[i], pull_format);
            if (flush_out(p, &p->connections[i])) return fail(result, strerror(errno));
        }
    }
    for (;;) {
        uint64_t at = now_ns(), next = until;
        int sending = at < until;
        if ((!sending && p->received >= p->sent) || at > patience) break;
        while (sending && (rate > 0 ? (next = from + (uint64_t)((double)due / rate * 1e9)) <= at
                                    : p->sent - p->received < (uint64_t)window)) {
            struct connection *c = &p->connections[sender];
            sender = (sender + 1) % senders;
            stamp(p, c, put_frame(p, c, at), rate > 0 ? next : at);
            p->sent++, due++;
        }
        for (int i = 0; i < senders; i++)
            if (p->connections[i].out_length && flush_out(p, &p->connections[i])) return fail(result, strerror(errno));
        struct itimerspec when = {.it_value = {(time_t)(next / SECOND), (long)(next % SECOND)}};
        if (sending) timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        int ready = epoll_wait(p->epoll, events, 256, 2000);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) { uint64_t ticks; if (read(timer, &ticks, 8) < 0) continue; continue; }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                if (read_in(c, result)) { close(timer); return -1; }
                struct answer a;
                size_t place = 0, length;
                for (; (length = next_answer(c, place, &a)); place += length) {
                    if (c >= p->connections + senders) {
                        if (a.code == 0) take_records(p, c, &a, from, result);
                        else if (a.code != NOT_FOUND && a.code != RETRY_AT_ONCE) bad_answer(&a, result);
                        pull(c, pull_format);
                    } else {
                        result->answers++;
                        if (a.code != 0) bad_answer(&a, result);
                    }
                    if (result->errors > 1000) { close(timer); return -1; }
                }
                consumed(c, place);
            }
            if (flush_out(p, c)) { close(timer); return fail(result, strerror(errno)); }
        }
    }
    end(p, result, from);
    close(timer);
    if (p->received < p->sent) return fail(result, "messages did not arrive within two seconds");
    return 0;
}
