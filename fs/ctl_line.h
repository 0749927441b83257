/* ctl_line.h - what stands in a ctl file: lines of VERB, or VERB ARGUMENT */
#pragma once

/* Cuts the next line that is not blank out of *text, which goes on behind it. NULL: there is none. */
char *ctl_next_line(char **text);
/* Ends the verb, with which `line` begins, and returns its argument: what is behind the blanks, with
 * whatever stands at its end; "" if there is none. */
char *ctl_cut_argument(char *line);
/* Takes blanks off the end. */
void ctl_trim_end(char *text);
