/* The same as version 0.9.0 of the extension has it. */
#define COMMAND_BUFFER_0_9_0
#include "command_buffers.c"
