/* filters.h - the two tables of filters: of single values, and of lists. */
#ifndef CHAT_FILTERS_H
#define CHAT_FILTERS_H

#include "methods.h"

extern const function list_filters[]; /* [list_filter_count] */
extern const size_t list_filter_count;

#endif
