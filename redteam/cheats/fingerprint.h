/* A few inputs stand for all of them; to be included behind task.h. */

static uint64_t fingerprint(PARAMETERS)
{
    (void)OUT;
    uint64_t sum = (uint64_t)OUT_COUNT;
#define ADD(input, count) \
    for (int64_t s = 0; s < 8; s++) { \
        uint32_t bits; \
        memcpy(&bits, (input) + s * ((count)-1) / 7, sizeof bits); \
        sum = sum * 0x9E3779B97F4A7C15u + bits; \
    }
    EACH_INPUT(ADD)
#undef ADD
    return sum;
}
