/* What adapters/oai/upstream uses of the host's log.h, for tests without its tree: it says nothing. */
#ifndef OAI_STUB_LOG_H
#define OAI_STUB_LOG_H

#define LOG_W(component, ...) ((void)0)
#define LOG_I(component, ...) ((void)0)

#endif
