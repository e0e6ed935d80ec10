//go:build cgo

// What cl_khr_command_buffer and its layers have, by names of ours: installed headers may have none of it, or an older
// version of the same name. Numbers and layouts are those of the versions that GODWIT_COMMAND_BUFFER names.
#ifndef GODWIT_ICD_COMMAND_BUFFER_H
#define GODWIT_ICD_COMMAND_BUFFER_H

#include "object.h"

typedef struct gw_command_buffer_object *gw_command_buffer;
typedef struct gw_command_object *gw_command; // cl_mutable_command_khr

enum { GW_INVALID_COMMAND_BUFFER = -1138, GW_INVALID_SYNC_POINT_WAIT_LIST = -1139, GW_INCOMPATIBLE_COMMAND_QUEUE = -1140, GW_INVALID_MUTABLE_COMMAND = -1141 };

// An argument of a launch, and a piece of execution info, in an update.
typedef struct gw_new_arg {
	cl_uint index;
	size_t size;
	const void *value;
} gw_new_arg;

typedef struct gw_new_exec_info {
	cl_uint name;
	size_t size;
	const void *value;
} gw_new_exec_info;

// gw_update is cl_mutable_dispatch_config_khr. Up to version 0.9.1 of the layer a type and a pointer came before it.
typedef struct gw_update {
	gw_command command;
	cl_uint args, svm_args, exec_infos, dims;
	const gw_new_arg *arg_list, *svm_arg_list;
	const gw_new_exec_info *exec_info_list;
	const size_t *offset, *global, *local;
} gw_update;

typedef struct gw_linked_update {
	cl_uint type;
	const void *next;
	gw_update update;
} gw_linked_update;

// gw_updates is cl_mutable_base_config_khr, which that version had.
typedef struct gw_updates {
	cl_uint type;
	const void *next;
	cl_uint count;
	const gw_linked_update *list;
} gw_updates;

static inline void gw_offer_0_9_0(void) { gw_command_buffer_functions = gw_command_buffers_0_9_0; }

#endif
