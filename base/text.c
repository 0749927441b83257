/* text.c - see text.h */
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"

/* isdigit() and its kin ask the locale and take no plain char. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
	       c == '_' || c == '-';
}

const char *name_fault(const char *name)
{
	size_t len = strnlen(name, NAME_MAX_LEN + 1);

	if (len == 0)
		return "is empty";
	if (len > NAME_MAX_LEN)
		return "is longer than 64 characters";
	if (name[0] == '.')
		return "begins with a dot";
	if (name[0] == '-')
		return "begins with a dash";
	for (size_t i = 0; i < len; i++)
		if (!is_name_char(name[i]))
			return "has a character other than A-Z a-z 0-9 . _ -";
	return NULL;
}
_Static_assert(NAME_MAX_LEN == 64, "the sentence above says 64");

bool name_valid(const char *name)
{
	return !name_fault(name);
}

char *text_put_u32(char *at, uint32_t n)
{
	char digits[10];
	size_t len = 0;

	do
		digits[len++] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	while (len > 0)
		*at++ = digits[--len];
	*at = '\0';
	return at;
}

bool name_is_number(const char *name)
{
	return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

void random_id(char out[RANDOM_ID_LEN + 1])
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuv";
	unsigned char drawn[RANDOM_ID_LEN];

	/* Up to 256 bytes the kernel gives all or blocks; an id that can be guessed is worse than
	 * no daemon. */
	if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
		abort();
	for (size_t i = 0; i < sizeof(drawn); i++)
		out[i] = digits[drawn[i] & 31];
	out[RANDOM_ID_LEN] = '\0';
}

/* The form has four digits for the year: times outside of it become the nearest one inside. */
#define YEAR_0000     (-62167219200)
#define YEAR_9999_END 253402300799

void rfc3339(char out[RFC3339_LEN + 1], const struct timespec *when)
{
	time_t sec = when->tv_sec;
	long ms = when->tv_nsec / 1000000;
	struct tm tm = { 0 };
	char text[96];

	if (sec < YEAR_0000)
		sec = YEAR_0000;
	if (sec > YEAR_9999_END)
		sec = YEAR_9999_END;
	if (ms < 0 || ms > 999)
		ms = 0;
	(void)gmtime_r(&sec, &tm);
	(void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ",
		       tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
		       tm.tm_sec, ms);
	memcpy(out, text, RFC3339_LEN);
	out[RFC3339_LEN] = '\0';
}

static int number_at(const char *text, size_t at, size_t digits)
{
	int n = 0;

	for (size_t i = at; i < at + digits; i++)
		n = n * 10 + (text[i] - '0');
	return n;
}

bool rfc3339_parse(const char *text, struct timespec *ret)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
	char again[RFC3339_LEN + 1];
	struct timespec when;
	struct tm tm = { 0 };

	for (size_t i = 0; i < sizeof(form); i++) /* its NUL too */
		if (form[i] == 'd' ? !is_digit(text[i]) : text[i] != form[i])
			return false;
	tm.tm_year = number_at(text, 0, 4) - 1900;
	tm.tm_mon = number_at(text, 5, 2) - 1;
	tm.tm_mday = number_at(text, 8, 2);
	tm.tm_hour = number_at(text, 11, 2);
	tm.tm_min = number_at(text, 14, 2);
	tm.tm_sec = number_at(text, 17, 2);
	when.tv_sec = timegm(&tm);
	when.tv_nsec = number_at(text, 20, 3) * 1000000L;
	/* timegm() takes February 30th and 25 o'clock for later times: those do not come back. */
	rfc3339(again, &when);
	if (strcmp(again, text) != 0)
		return false;
	*ret = when;
	return true;
}

size_t utf8_next(const char *bytes, size_t len, uint32_t *ret_point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = len > 0 ? (unsigned char)bytes[0] : 0xff;
	size_t need = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
	uint32_t point = lead;

	if (need == 0 || need > len || lead > 0xf4)
		return 0;
	if (need > 1)
		point &= 0x7fu >> need;
	for (size_t i = 1; i < need; i++) {
		unsigned char c = (unsigned char)bytes[i];

		if ((c & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (c & 0x3fu);
	}
	if (point < least[need] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	if (ret_point)
		*ret_point = point;
	return need;
}

bool text_printable(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{ 0x0000, 0x001f }, { 0x007f, 0x009f }, { 0x061c, 0x061c }, { 0x200e, 0x200f },
		{ 0x2028, 0x202e }, { 0x2066, 0x2069 }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
	};

	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		if (point >= hidden[i].first && point <= hidden[i].last)
			return false;
	return true;
}

static int escape_byte(struct buf *buf, unsigned char c)
{
	switch (c) {
	case '\n':
		return buf_add(buf, "\\n", 2);
	case '\t':
		return buf_add(buf, "\\t", 2);
	case '\r':
		return buf_add(buf, "\\r", 2);
	case '\\':
		return buf_add(buf, "\\\\", 2);
	default:
		return buf_printf(buf, "\\x%02x", c);
	}
}

int text_escape(struct buf *buf, const char *bytes, size_t len)
{
	size_t start = buf->len, n;
	uint32_t point = 0;
	int r = 0;

	for (size_t i = 0; i < len && r == 0; i += n) {
		n = utf8_next(bytes + i, len - i, &point);
		if (n > 0 && text_printable(point) && point != '\\') {
			r = buf_add(buf, bytes + i, n);
			continue;
		}
		if (n == 0)
			n = 1;
		for (size_t k = 0; k < n && r == 0; k++)
			r = escape_byte(buf, (unsigned char)bytes[i + k]);
	}
	if (r < 0 && buf->data) {
		buf->len = start;
		buf->data[start] = '\0';
	}
	return r;
}

/* 32 and 33 are glibc's own and have no name.  SIGRTMIN is a function call in glibc, for their
 * sake; its value is 34 on every Linux. */
#define RT_FIRST  34
#define RT_LAST   64
#define SIG(name) [SIG##name] = "SIG" #name
#define RT(n)     [RT_FIRST + (n)] = "SIGRTMIN+" #n

static const char signal_names[RT_LAST + 1][12] = {
	SIG(HUP),  SIG(INT),    SIG(QUIT), SIG(ILL),
	SIG(TRAP), SIG(ABRT),   SIG(BUS),  SIG(FPE),
	SIG(KILL), SIG(USR1),   SIG(SEGV), SIG(USR2),
	SIG(PIPE), SIG(ALRM),   SIG(TERM), SIG(STKFLT),
	SIG(CHLD), SIG(CONT),   SIG(STOP), SIG(TSTP),
	SIG(TTIN), SIG(TTOU),   SIG(URG),  SIG(XCPU),
	SIG(XFSZ), SIG(VTALRM), SIG(PROF), SIG(WINCH),
	SIG(POLL), SIG(PWR),    SIG(SYS),  [RT_FIRST] = "SIGRTMIN",
	RT(1),     RT(2),       RT(3),     RT(4),
	RT(5),     RT(6),       RT(7),     RT(8),
	RT(9),     RT(10),      RT(11),    RT(12),
	RT(13),    RT(14),      RT(15),    RT(16),
	RT(17),    RT(18),      RT(19),    RT(20),
	RT(21),    RT(22),      RT(23),    RT(24),
	RT(25),    RT(26),      RT(27),    RT(28),
	RT(29),    RT(30),
};

const char *signal_name(int sig)
{
	if (sig < 1 || sig > RT_LAST || signal_names[sig][0] == '\0')
		return NULL;
	return signal_names[sig];
}

/* One or two digits; -1 otherwise. */
static int short_number(const char *text)
{
	size_t len = strnlen(text, 3);

	if (!name_is_number(text) || len > 2)
		return -1;
	return number_at(text, 0, len);
}

/* Behind "RTMIN" and "RTMAX": nothing, or a sign and a distance that stays between them. */
static int realtime_number(const char *rest, int from, char sign)
{
	int distance;

	if (rest[0] == '\0')
		return from;
	if (rest[0] != sign)
		return -1;
	distance = short_number(rest + 1);
	if (distance < 0 || distance > RT_LAST - RT_FIRST)
		return -1;
	return sign == '+' ? from + distance : from - distance;
}

int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int sig;
	} also[] = { { "IOT", SIGABRT }, { "CLD", SIGCHLD }, { "IO", SIGIO } };
	int sig = short_number(name);

	if (sig >= 0)
		return sig >= 1 && sig <= RT_LAST ? sig : -1;
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	if (strncmp(name, "RTMIN", 5) == 0)
		return realtime_number(name + 5, RT_FIRST, '+');
	if (strncmp(name, "RTMAX", 5) == 0)
		return realtime_number(name + 5, RT_LAST, '-');
	for (size_t i = 0; i < ARRAY_SIZE(also); i++)
		if (strcmp(name, also[i].name) == 0)
			return also[i].sig;
	for (int i = 1; i < RT_FIRST; i++)
		if (signal_names[i][0] != '\0' && strcmp(name, signal_names[i] + 3) == 0)
			return i;
	return -1;
}
