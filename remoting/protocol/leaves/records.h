/* Records of a buffer, as columns: the twin is scan.py in remoting/protocol/record, the rules are those of verdict.py.
 *
 * Every read is inside of [data, data + length): a record is looked into only once it is known to be shown.
 */
#ifndef AIOROCKETMQ_RECORDS_H
#define AIOROCKETMQ_RECORDS_H

#include "bytes.h"
#include "crc32.h"
#include "property.h"
#include "record_layout.h"

#include <stdlib.h>

enum { RECORD_SECTOR = 512, RECORD_FEW_ZEROS = 8 };
#define RECORD_NO_MEMORY ((size_t)-1)
#define RECORD_NO_QUEUE ((uint32_t)-1)

/* One row of each column for a record. */
typedef struct {
    int64_t *at, *size, *phy_offset, *queue_id, *queue_offset, *sys_flag, *store_timestamp, *body_at, *body_size, *topic,
        *properties_at;
} record_columns;

/* The different topics, in the order in which they come: where the first of each lies, found again by Python's own hash, which
 * nobody who chooses names can foresee. */
typedef struct {
    size_t *at, *size, count, room;
    uint32_t *slots; /* number + 1, 0 for none: twice as many as there is room for, a power of two */
} record_topics;

static inline void record_topics_free(record_topics *topics)
{
    free(topics->at);
    free(topics->size);
    free(topics->slots);
}

static inline uint32_t *record_topics_slot(const record_topics *topics, const uint8_t *data, size_t at, size_t size)
{
    size_t mask = 2 * topics->room - 1, slot = (size_t)bytes_hash(data + at, size) & mask;
    for (uint32_t number; (number = topics->slots[slot]); slot = (slot + 1) & mask)
        if (topics->size[number - 1] == size && !memcmp(data + topics->at[number - 1], data + at, size))
            break;
    return topics->slots + slot;
}

/* Room for twice as many (`topics` may be all zeros). False without memory. */
static inline int record_topics_grow(record_topics *topics, const uint8_t *data)
{
    size_t room = topics->room ? 2 * topics->room : 16;
    size_t *at = realloc(topics->at, room * sizeof *at);
    topics->at = at ? at : topics->at;
    size_t *size = realloc(topics->size, room * sizeof *size);
    topics->size = size ? size : topics->size;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    if (!at || !size || !slots) {
        free(slots);
        return 0;
    }
    free(topics->slots);
    topics->slots = slots;
    topics->room = room;
    for (size_t number = 0; number < topics->count; number++)
        *record_topics_slot(topics, data, at[number], size[number]) = (uint32_t)number + 1;
    return 1;
}

/* The number of a topic; -1 without memory. */
static inline int64_t record_topic_number(record_topics *topics, const uint8_t *data, size_t at, size_t size)
{
    if (topics->count == topics->room && !record_topics_grow(topics, data))
        return -1;
    uint32_t *slot = record_topics_slot(topics, data, at, size);
    if (!*slot) {
        topics->at[topics->count] = at;
        topics->size[topics->count] = size;
        *slot = (uint32_t)++topics->count;
    }
    return (int64_t)*slot - 1;
}

/* Whether zeros in the properties at [begin, end) are a lost sector, or may be one for all that is shown (_of_zeros). */
static inline int record_lost_sector(
    const uint8_t *data, size_t length, size_t at, int64_t place, size_t begin, size_t end, size_t left)
{
    int64_t in_sector = (int64_t)(((uint64_t)place + (begin - at)) % RECORD_SECTOR);
    for (int64_t start = (int64_t)begin - in_sector; start < (int64_t)end; start += RECORD_SECTOR) {
        int64_t stop = start + RECORD_SECTOR, from = start > (int64_t)begin ? start : (int64_t)begin;
        int64_t to = stop < (int64_t)end ? stop : (int64_t)end;
        if (to - from < RECORD_FEW_ZEROS)
            continue;
        size_t shown_from = start > (int64_t)at ? (size_t)start : at, shown_to = (size_t)stop < length ? (size_t)stop : length;
        if (!bytes_all_zero(data + shown_from, shown_to - shown_from))
            continue;
        if ((size_t)stop <= length || (size_t)stop - at <= left)
            return 1;
    }
    return 0;
}

typedef struct {
    int64_t place; /* physical offset of data[0] */
    int has_place, check_crc, any_version;
    int entries; /* records have heads in front; then of the next one: */
    int64_t next_index, least_term; /* -1: any */
} record_rules;

/* Where the parts of a record lie. */
typedef struct {
    size_t end, body_at, body_size, topic_at, topic_size, properties_at;
    int64_t phy_offset, store_timestamp;
    int32_t sys_flag;
} record_parts;

/* Whether the record that begins at `begin` is intact as far as it can be proved, its topic but for one that was looked at
 * before (take_apart). `limit`: where the file ends, counted like `begin`: `length` or more, if more can be shown. */
static inline int record_take_apart(
    const uint8_t *data, size_t length, size_t begin, size_t limit, const record_rules *rules, record_parts *parts)
{
    if (length - begin < RECORD_MIN_SIZE)
        return 0;
    const uint8_t *record = data + begin;
    uint32_t magic = bytes_read_u32(record + RECORD_MAGIC_AT);
    int64_t size = (int32_t)bytes_read_u32(record + RECORD_STORE_SIZE_AT);
    if (magic != RECORD_MAGIC && !(rules->any_version && magic == RECORD_MAGIC_V2))
        return 0;
    if (size < RECORD_MIN_SIZE || (uint64_t)size > length - begin || (uint64_t)size > limit - begin)
        return 0;
    parts->phy_offset = bytes_read_i64(record + RECORD_PHY_OFFSET_AT);
    if (rules->has_place && parts->phy_offset != (int64_t)((uint64_t)rules->place + begin))
        return 0;
    parts->sys_flag = (int32_t)bytes_read_u32(record + RECORD_SYS_FLAG_AT);
    size_t born_more = parts->sys_flag & RECORD_BORN_HOST_V6 ? RECORD_V6_MORE : 0;
    size_t head_more = born_more + (parts->sys_flag & RECORD_STORE_HOST_V6 ? RECORD_V6_MORE : 0);
    if (RECORD_MIN_SIZE + head_more > (size_t)size)
        return 0;
    size_t end = parts->end = begin + (size_t)size, length_size = magic == RECORD_MAGIC ? 1 : 2;
    parts->body_at = begin + RECORD_HEAD_SIZE + head_more;
    int64_t body_size = (int32_t)bytes_read_u32(record + RECORD_BODY_SIZE_AT + head_more);
    if (body_size < 0 || (uint64_t)body_size + length_size + 2 > end - parts->body_at)
        return 0;
    parts->body_size = (size_t)body_size;
    parts->topic_at = parts->body_at + parts->body_size + length_size;
    parts->topic_size = length_size == 1 ? data[parts->topic_at - 1] : bytes_read_u16(data + parts->topic_at - 2);
    if (parts->topic_size + 2 > end - parts->topic_at)
        return 0;
    parts->properties_at = parts->topic_at + parts->topic_size + 2;
    if (bytes_read_u16(data + parts->properties_at - 2) != end - parts->properties_at)
        return 0;
    parts->store_timestamp = bytes_read_i64(record + RECORD_STORE_TIMESTAMP_AT + born_more);
    if (memchr(data + parts->properties_at, 0, end - parts->properties_at)
        && record_lost_sector(data, length, begin, parts->phy_offset, parts->properties_at, end, limit - begin))
        return 0;
    return !rules->check_crc
        || (crc32_of(0, data + parts->body_at, parts->body_size) & 0x7FFFFFFF) == bytes_read_u32(record + RECORD_BODY_CRC_AT);
}

/* Whether the head of an entry that goes on from the one before begins at `begin`, with a record that is as long and where it
 * should be (take_apart_entry; the record itself is not looked at). */
static inline int record_entry_head(
    const uint8_t *data, size_t length, size_t begin, size_t limit, const record_rules *rules, int64_t *index, int64_t *term)
{
    if (length - begin < ENTRY_HEAD_SIZE + RECORD_MIN_SIZE)
        return 0;
    const uint8_t *head = data + begin, *record = head + ENTRY_HEAD_SIZE;
    int64_t size = (int32_t)bytes_read_u32(head + ENTRY_SIZE_AT), body_size = (int32_t)bytes_read_u32(head + ENTRY_BODY_SIZE_AT);
    int64_t pos = bytes_read_i64(head + ENTRY_POS_AT);
    if (bytes_read_u32(head + ENTRY_MAGIC_AT) != ENTRY_MAGIC || size < ENTRY_HEAD_SIZE + RECORD_MIN_SIZE
        || (uint64_t)size > length - begin || (uint64_t)size > limit - begin || body_size != size - ENTRY_HEAD_SIZE
        || !bytes_all_zero(head + ENTRY_CHANNEL_AT, ENTRY_BODY_SIZE_AT - ENTRY_CHANNEL_AT)
        || (rules->has_place && pos != (int64_t)((uint64_t)rules->place + begin))
        || bytes_read_i64(record + RECORD_PHY_OFFSET_AT) != (int64_t)((uint64_t)pos + ENTRY_HEAD_SIZE)
        || (int32_t)bytes_read_u32(record + RECORD_STORE_SIZE_AT) != body_size)
        return 0;
    *index = bytes_read_i64(head + ENTRY_INDEX_AT);
    *term = bytes_read_i64(head + ENTRY_TERM_AT);
    return *index >= 0 && *index < QUEUE_MOST_PHY_OFFSET && (rules->next_index < 0 || *index == rules->next_index) && *term >= 0
        && *term >= rules->least_term;
}

/* Records from *at on, into the rows from `count` up to `room`; how many there are then. *at is behind them afterwards. */
static inline size_t records_scan(
    const uint8_t *data, size_t length, size_t *at, size_t limit, record_rules *rules, record_topics *topics,
    const record_columns *to, size_t count, size_t room)
{
    size_t begin = *at, head = rules->entries ? ENTRY_HEAD_SIZE : 0, last_topic_at = 0, last_topic_size = (size_t)-1;
    int64_t topic = 0, index = 0, term = 0;
    record_parts parts;
    for (; count < room; count++) {
        if (head && !record_entry_head(data, length, begin, limit, rules, &index, &term))
            break;
        if (!record_take_apart(data, length, begin + head, limit, rules, &parts))
            break;
        if (parts.topic_size != last_topic_size || memcmp(data + parts.topic_at, data + last_topic_at, parts.topic_size)) {
            if ((rules->has_place || head) && memchr(data + parts.topic_at, 0, parts.topic_size))
                break;
            if ((topic = record_topic_number(topics, data, parts.topic_at, parts.topic_size)) < 0)
                return RECORD_NO_MEMORY;
            last_topic_at = parts.topic_at;
            last_topic_size = parts.topic_size;
        }
        begin += head;
        to->at[count] = (int64_t)begin;
        to->size[count] = (int64_t)(parts.end - begin);
        to->phy_offset[count] = parts.phy_offset;
        to->queue_id[count] = (int32_t)bytes_read_u32(data + begin + RECORD_QUEUE_ID_AT);
        to->queue_offset[count] = bytes_read_i64(data + begin + RECORD_QUEUE_OFFSET_AT);
        to->sys_flag[count] = parts.sys_flag;
        to->store_timestamp[count] = parts.store_timestamp;
        to->body_at[count] = (int64_t)parts.body_at;
        to->body_size[count] = (int64_t)parts.body_size;
        to->topic[count] = topic;
        to->properties_at[count] = (int64_t)parts.properties_at;
        begin = parts.end;
        rules->next_index = index + 1; /* of entries */
        rules->least_term = term;
    }
    *at = begin;
    return count;
}

/* One queue among records. */
typedef struct {
    int64_t topic, queue_id, last_offset;
    size_t count, begin;
    int without_gap;
} record_queue;

typedef struct {
    record_queue *queues;
    size_t count, room;
    uint32_t *slots; /* number + 1, 0 for none: twice as many as there is room for, a power of two */
    uint64_t key;    /* nobody can foresee it */
} record_queues;

static inline void record_queues_free(record_queues *table)
{
    free(table->queues);
    free(table->slots);
}

static inline uint32_t *record_queues_slot(const record_queues *table, int64_t topic, int64_t queue_id)
{
    uint64_t hash = ((uint64_t)queue_id + ((uint64_t)topic << 32)) ^ table->key;
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDu;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53u;
    size_t mask = 2 * table->room - 1, slot = (size_t)(hash ^ hash >> 33) & mask;
    for (uint32_t number; (number = table->slots[slot]); slot = (slot + 1) & mask)
        if (table->queues[number - 1].topic == topic && table->queues[number - 1].queue_id == queue_id)
            break;
    return table->slots + slot;
}

/* Room for twice as many (`table` may be all zeros but for its key). False without memory. */
static inline int record_queues_grow(record_queues *table)
{
    size_t room = table->room ? 2 * table->room : 16;
    record_queue *queues = realloc(table->queues, room * sizeof *queues);
    table->queues = queues ? queues : table->queues;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    if (!queues || !slots) {
        free(slots);
        return 0;
    }
    free(table->slots);
    table->slots = slots;
    table->room = room;
    for (size_t number = 0; number < table->count; number++)
        *record_queues_slot(table, queues[number].topic, queues[number].queue_id) = (uint32_t)number + 1;
    return 1;
}

/* Which queue each of the records belongs to, into `queue_of` (RECORD_NO_QUEUE: prepared and rolled back messages); then where
 * each queue begins among all of them, side by side. How many records that are. */
static inline size_t records_by_queue(
    size_t count, const int64_t *topics, const int64_t *queue_ids, const int64_t *queue_offsets, const int64_t *sys_flags,
    record_queues *table, uint32_t *queue_of)
{
    for (size_t row = 0; row < count; row++) {
        if (sys_flags[row] & RECORD_PREPARED) {
            queue_of[row] = RECORD_NO_QUEUE;
            continue;
        }
        if (table->count == table->room && !record_queues_grow(table))
            return RECORD_NO_MEMORY;
        uint32_t *slot = record_queues_slot(table, topics[row], queue_ids[row]);
        if (!*slot) {
            table->queues[table->count] = (record_queue){topics[row], queue_ids[row], 0, 0, 0, 1};
            *slot = (uint32_t)++table->count;
        }
        record_queue *queue = table->queues + (*slot - 1);
        if (queue->count++ && (queue->last_offset == INT64_MAX || queue_offsets[row] != queue->last_offset + 1))
            queue->without_gap = 0;
        queue->last_offset = queue_offsets[row];
        queue_of[row] = *slot - 1;
    }
    size_t begin = 0;
    for (size_t number = 0; number < table->count; number++) {
        table->queues[number].begin = begin;
        begin += table->queues[number].count;
    }
    return begin;
}

/* Write a queue unit. False: the tags are no ASCII, then without tags code. */
static inline int record_unit(
    uint8_t *to, int64_t phy_offset, int64_t size, const uint8_t *properties, size_t properties_size)
{
    uint32_t code = 0;
    property_value tags = property_find(properties, properties_size, "TAGS\1", 5);
    int plain = java_hash(tags.at, tags.size, &code);
    bytes_write_i64(to + QUEUE_UNIT_PHY_OFFSET_AT, phy_offset);
    bytes_write_u32(to + QUEUE_UNIT_SIZE_AT, (uint32_t)size);
    bytes_write_i64(to + QUEUE_UNIT_TAGS_CODE_AT, (int32_t)code);
    return plain;
}

#endif
