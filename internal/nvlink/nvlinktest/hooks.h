// Gates and hooks that tests give an engine, and calls of the fake by name.
#include <stdint.h>

typedef struct gw_ended { uint64_t id; int32_t status, pad; } gw_ended;
typedef struct gw_test_sink gw_test_sink;
gw_test_sink *gw_test_sink_new(void);
void gw_test_sink_free(gw_test_sink *s);
void gw_test_ended(uint64_t sink, uint64_t id, int32_t status);
int gw_test_take(gw_test_sink *s, gw_ended *out, int64_t ns);
int gw_test_poll(uint64_t gate);
int64_t gw_test_call(void *f, int64_t a, int64_t b, int64_t c);
// gw_test_in_child forks; the child tries to get in, ends as any program does, and says by its
// status what it found: 0 where it was refused.
int gw_test_in_child(void);
