/* profile_report.h - what `hearth profile` counted, for people: tables, words and a picture. */
#ifndef CLI_PROFILE_REPORT_H
#define CLI_PROFILE_REPORT_H

#include "../learn/profile.h"

/* Prints the figures of the layers and of their experts, and what they mean. */
void profile_report(const profile *p, const hearth_model *model);

/* Draws which share of the neurons fires, by layer, expert and token, and writes below it what was counted and how, so
 * that the picture can be cited alone. texts: what was read, in words; command: the command line. */
hearth_status profile_plot(const char *path, const profile *p, const hearth_model *model, const char *texts,
                           const char *command, hearth_error *error);

#endif
