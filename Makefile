# Weft: library, command and tests. `make help` lists the targets.
#
#   VARIANT=debug|release|asan|tsan         what to build (default release); asan: UBSan too
#   V=1                                     show commands
#   WERROR=1                                warnings are errors (CI)
#   DNNL=auto|0|1                           oneDNN for matrix products
#   LAPACK=auto|0|1                         LAPACK for inverses and factors of matrices
#   KISSFFT=auto|0|1                        KISS FFT for Fourier transforms
#   MPI=auto|0|1, MPICC=mpicc               the plugin weft_mpi.so: ranks in several processes
#   CUDA=auto|0|1, NVCC=nvcc                the plugin weft_cuda.so: GPUs
#   CUDA_ARCHS="80 90 100"                  which GPUs its kernels are compiled for
#   GPU_ARCHS=90                            of make check-gpu: the same; default: the GPU that is here, else 90

VARIANT ?= release
BUILD   ?= build
DNNL    ?= auto
LAPACK  ?= auto
KISSFFT ?= auto
MPI     ?= auto
MPICC   ?= mpicc
CUDA    ?= auto
CUDA_ARCHS ?= 80 90 100
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

B := $(BUILD)/$(VARIANT)
Q := $(if $(V),,@)

CC       ?= gcc
OBJCOPY  ?= objcopy
STRIP    ?= strip
PKGS     := yaml-0.1 jansson libzip zlib libprotobuf-c
PKG_CONFIG ?= pkg-config
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion -Wwrite-strings
CPPFLAGS += -Iinclude -I. -I$(B)/gen -D_GNU_SOURCE -DWEFT_VERSION='"$(VERSION)"'
CFLAGS_debug   := -Og -g3
CFLAGS_release := -O2 -g1
CFLAGS_asan    := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS_tsan    := -O1 -g1 -fsanitize=thread
# Kernels: a step spends its time there. In a release they are compiled once more for each of KERNEL_ISAS; the executor
# takes the best that the machine has (executor/kernels/find.c). Contraction: a product and a sum may be one rounding.
KERNEL_FLAGS_release := -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast
KERNEL_ISAS_release  := $(if $(filter x86_64,$(shell uname -m)),v3 v4)
KERNEL_ISAS          := $(KERNEL_ISAS_$(VARIANT))
KERNEL_ISA_FLAGS_v3  := -march=x86-64-v3
KERNEL_ISA_FLAGS_v4  := -march=x86-64-v4 -mprefer-vector-width=512
LDFLAGS_asan  := -fsanitize=address,undefined
LDFLAGS_tsan  := -fsanitize=thread

ifeq ($(filter $(VARIANT),debug release asan tsan),)
$(error VARIANT is "$(VARIANT)": expected debug, release, asan or tsan)
endif

ALL_CFLAGS = -std=c17 $(WARNINGS) $(if $(WERROR),-Werror) $(CFLAGS_$(VARIANT)) -fPIC -pthread -fvisibility=default \
             $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
LDLIBS  := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) -lm -pthread

# oneDNN has no pkg-config file in Debian 12: look for its header.
HAVE_DNNL := $(if $(wildcard /usr/include/dnnl.h /usr/include/*/dnnl.h),1,0)
ifeq ($(DNNL),1)
  ifeq ($(HAVE_DNNL),0)
    $(error DNNL=1 but dnnl.h was not found: install libdnnl-dev)
  endif
endif
ifneq ($(DNNL),0)
  ifeq ($(HAVE_DNNL),1)
    CPPFLAGS += -DWEFT_HAVE_DNNL=1
    LDLIBS   += -ldnnl -lgomp
  endif
endif

# LAPACK by its Fortran names, which need no header. Six files call it.
HAVE_LAPACK := $(if $(wildcard /usr/lib/liblapack.so /usr/lib/*/liblapack.so /usr/lib64/liblapack.so),1,0)
ifeq ($(LAPACK),1)
  ifeq ($(HAVE_LAPACK),0)
    $(error LAPACK=1 but liblapack.so was not found: install liblapack-dev)
  endif
endif
ifneq ($(LAPACK),0)
  ifeq ($(HAVE_LAPACK),1)
    LDLIBS   += -llapack
$(B)/%linear/linear.o $(B)/%linear/systems.o $(B)/%linear/decompose.o $(B)/%linear/lu.o \
    $(B)/%linear/eig.o $(B)/%linear/least_squares.o: CPPFLAGS += -DWEFT_HAVE_LAPACK=1
  endif
endif

# KISS FFT of floats. One file calls it.
HAVE_KISSFFT := $(if $(wildcard /usr/include/kissfft/kiss_fft.h),1,0)
ifeq ($(KISSFFT),1)
  ifeq ($(HAVE_KISSFFT),0)
    $(error KISSFFT=1 but kissfft/kiss_fft.h was not found: install libkissfft-dev)
  endif
endif
ifneq ($(KISSFFT),0)
  ifeq ($(HAVE_KISSFFT),1)
    LDLIBS   += -lkissfft-float
$(B)/%spectrum/fft.o: CPPFLAGS += -DWEFT_HAVE_KISSFFT=1
  endif
endif

# Nothing but the plugin links MPI.
HAVE_MPI := $(if $(shell command -v $(MPICC) 2>/dev/null),1,0)
ifeq ($(MPI)$(HAVE_MPI),10)
  $(error MPI=1 but there is no $(MPICC): install libopenmpi-dev)
endif
MPI_PLUGIN := $(if $(filter-out 0,$(MPI)),$(if $(filter 1,$(HAVE_MPI)),$(B)/weft_mpi.so))

# Nothing but the plugin needs CUDA, and that opens its libraries at run time: to build it, headers and nvcc do.
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME := $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(or $(NVCC),nvcc) 2>/dev/null))))
NCCL_H    := $(firstword $(wildcard $(CUDA_HOME)/include/nccl.h /usr/include/nccl.h /usr/local/include/nccl.h))
CUDNN_H   := $(firstword $(wildcard $(CUDA_HOME)/include/cudnn.h /usr/include/cudnn.h))
NVTX_H    := $(wildcard $(CUDA_HOME)/include/nvtx3/nvToolsExt.h)
HAVE_CUDA := $(if $(and $(CUDA_HOME),$(NCCL_H),$(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h)),1,0)
ifeq ($(CUDA)$(HAVE_CUDA),10)
  $(error CUDA=1 but there is no nvcc, or no nccl.h beside the headers of its toolkit)
endif
CUDA_PLUGIN := $(if $(filter-out 0,$(CUDA)),$(if $(filter 1,$(HAVE_CUDA)),$(B)/weft_cuda.so))
STANDINS    := $(if $(CUDA_PLUGIN),$(addprefix $(B)/standin/,libcudart.so.13 libnccl.so.2 libcublasLt.so.13 $(if $(CUDNN_H),libcudnn.so.9) $(if $(NVTX_H),libnvtx.so)))

LIB_DIRS := base dist_attr program ops plan simulate proof passes executor train
MPI_SRCS := $(sort $(wildcard executor/comm/mpi/*.c))
CUDA_SRCS := $(filter-out $(addprefix executor/devices/cuda/,$(if $(CUDNN_H),conv_none.c,conv.c dnn.c)),\
    $(sort $(wildcard executor/devices/cuda/*.c executor/comm/nccl/*.c executor/comm/loopback/*.c)))
CUDA_KERNELS := $(wildcard executor/devices/cuda/kernels/*)
LIB_SRCS := $(filter-out $(MPI_SRCS) $(CUDA_SRCS) executor/devices/cuda/%,$(sort $(shell find $(LIB_DIRS) -name '*.c')))
CLI_SRCS := $(sort $(wildcard cli/*.c))
ISA_SRCS := $(filter-out executor/kernels/find.c,$(filter executor/kernels/%,$(LIB_SRCS)))
ISA_OBJS := $(foreach isa,$(KERNEL_ISAS),$(ISA_SRCS:%.c=$(B)/isa-$(isa)/%.o))
LIB_OBJS := $(LIB_SRCS:%.c=$(B)/%.o) $(KERNEL_ISAS:%=$(B)/kernels-%.o) $(B)/gen/framework.pb-c.o
CLI_OBJS := $(CLI_SRCS:%.c=$(B)/%.o)
MPI_OBJS := $(MPI_SRCS:%.c=$(B)/%.o)
CUDA_OBJS := $(CUDA_SRCS:%.c=$(B)/%.o)
LIB      := $(B)/libweft.a
SHLIB    := $(B)/libweft.so
WEFT     := $(B)/weft

# Tests: tests/unit/*.c are Criterion suites, tests/plain/*.c plain mains (they also run under TSan), one binary a file.
UNIT_TESTS  := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/unit/*.c)))
PLAIN_TESTS := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/plain/*.c)))
BENCHES     := $(addprefix $(B)/bench/,scale chain plan steps proof fuse comm buckets spmd micro)
TEST_SUPPORT := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/support/*.c)))

.PHONY: all lib cli standins coverage-cuda check-gpu carried python unit-tests plain-tests benches demo test check-all check-frameworks check-mpi check-deps golden bench bench-bugs docs format install uninstall clean \
        help setup
all: setup
	$(Q)$(MAKE) --no-print-directory lib cli

setup:
	$(Q)./setup

lib: $(LIB) $(SHLIB) $(MPI_PLUGIN) $(CUDA_PLUGIN)
cli: $(WEFT)
unit-tests: $(UNIT_TESTS) $(STANDINS)
plain-tests: $(PLAIN_TESTS) $(STANDINS)
standins: $(STANDINS)

$(B)/gen/framework.pb-c.c: program/pdmodel/framework.proto
	@mkdir -p $(@D)
	$(Q)cd program/pdmodel && protoc-c --c_out=$(abspath $(@D)) framework.proto
$(B)/gen/framework.pb-c.h: $(B)/gen/framework.pb-c.c ;

# Generated code is not ours to lint.
$(B)/gen/framework.pb-c.o: $(B)/gen/framework.pb-c.c
	$(Q)$(CC) -std=c17 $(CFLAGS_$(VARIANT)) -fPIC -fvisibility=hidden $(CPPFLAGS) -c -o $@ $<

# Wide vectors go between static functions alone: nothing depends on how they are passed.
$(B)/executor/kernels/%.o: EXTRA_FLAGS = $(KERNEL_FLAGS_$(VARIANT)) -Wno-psabi
$(B)/executor/comm/reduce.o: EXTRA_FLAGS = $(KERNEL_FLAGS_$(VARIANT))
$(B)/%.o: %.c | $(B)/gen/framework.pb-c.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA_FLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

# The wrapper calls our compiler. mpi.h has long long and variadic macros of its own.
MPICC_ENV := OMPI_CC='$(CC)' MPICH_CC='$(CC)'
$(B)/executor/comm/mpi/%.o: executor/comm/mpi/%.c | $(B)/gen/framework.pb-c.h
	@mkdir -p $(@D)
	$(Q)$(MPICC_ENV) $(MPICC) $(ALL_CFLAGS) -fvisibility=hidden $(CPPFLAGS) -MMD -MP -c -o $@ $<
# It has copies of what it uses of the library, and shows one symbol.
$(B)/weft_mpi.so: $(MPI_OBJS) $(LIB)
	$(Q)$(MPICC_ENV) $(MPICC) -shared -Wl,-Bsymbolic -Wl,--exclude-libs,ALL $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ \
	    $(MPI_OBJS) $(LIB) -lm -pthread

# Headers of CUDA and NCCL are theirs, not ours to lint.
CUDA_FLAGS = -isystem $(CUDA_HOME)/include -isystem $(dir $(NCCL_H)) -fvisibility=hidden
$(B)/executor/devices/cuda/%.o: CPPFLAGS += $(CUDA_FLAGS)
$(B)/executor/comm/nccl/%.o: CPPFLAGS += $(CUDA_FLAGS)
$(B)/executor/comm/loopback/%.o: CPPFLAGS += $(CUDA_FLAGS)
# Kernels, for all variants: an image that the plugin carries.
CUDA_AT    ?= $(BUILD)/cuda
CUDA_IMAGE := $(CUDA_AT)/kernels.fatbin
# Other GPUs make another image.
$(if $(CUDA_PLUGIN),$(shell mkdir -p $(CUDA_AT) && echo '$(CUDA_ARCHS)' | cmp -s - $(CUDA_AT)/archs || \
    echo '$(CUDA_ARCHS)' >$(CUDA_AT)/archs))
$(CUDA_IMAGE): $(CUDA_KERNELS) $(CUDA_AT)/archs
	@mkdir -p $(@D)
	$(Q)$(NVCC) -fatbin -O3 -Werror all-warnings $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) -I. \
	    --threads 0 -Xptxas -v -o $@ executor/devices/cuda/kernels/all.cu 2>$(CUDA_AT)/ptxas.log || \
	    { cat $(CUDA_AT)/ptxas.log >&2; rm -f $(CUDA_AT)/ptxas.log; false; }
$(B)/executor/devices/cuda/kernels/image.o: $(CUDA_IMAGE)
	@mkdir -p $(@D)
	$(Q)printf '.section .rodata\n.balign 64\n.global weft_cuda_image\n.hidden weft_cuda_image\nweft_cuda_image:\n.incbin "%s"\n%s\n' \
	    $< '.section .note.GNU-stack,"",@progbits' | $(CC) -x assembler -c -o $@ -
$(B)/weft_cuda.so: $(CUDA_OBJS) $(B)/executor/devices/cuda/kernels/image.o $(LIB)
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,--exclude-libs,ALL $(if $(filter %san,$(VARIANT)),,-Wl,-z,defs) \
	    $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LDLIBS)

# How much of the plugin's host code the tests on stand-ins run.
$(B)/coverage/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -O0 -MMD -MP --coverage $(CPPFLAGS) $(CUDA_FLAGS) -c -o $@ $<
$(B)/coverage/weft_cuda.so: $(CUDA_SRCS:%.c=$(B)/coverage/%.o) $(B)/executor/devices/cuda/kernels/image.o $(LIB)
	$(Q)$(CC) -shared --coverage -Wl,-Bsymbolic -Wl,--exclude-libs,ALL $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LDLIBS)
coverage-cuda: $(B)/coverage/weft_cuda.so $(STANDINS) $(addprefix $(B)/tests/plain/,cuda_device cuda_kernels cuda_rings cuda_loopback cuda_rules cuda_rules_dnn cuda_registered cuda_lost_waits cuda_epilogues)
	$(Q)sh tools/cuda_coverage.sh $(B)

# What must hold on a machine with a GPU, which may have no packages: what it runs is put together in $(CARRIED), with the
# libraries that it loads. There, or where it was carried to: sh tools/check_gpu.sh build/gpu/carried [PART...]
CARRIED := $(BUILD)/carried
GPU_TESTS := $(addprefix tests/plain/,cuda_kernels cuda_epilogues cuda_halves cuda_device cuda_loopback)
# Kernels for the GPU at hand alone; without one, for the one that they are carried to.
GPU_ARCHS ?= $(or $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u),90)
check-gpu:
	$(Q)$(MAKE) --no-print-directory carried BUILD=$(BUILD)/gpu CUDA_AT=$(BUILD)/gpu/cuda CUDA_ARCHS="$(GPU_ARCHS)" \
	    VARIANT=release CUDA=1 DNNL=0 LAPACK=0 KISSFFT=0 MPI=0
	$(Q)sh tools/check_gpu.sh $(BUILD)/gpu/carried $(PARTS)
carried: $(WEFT) $(CUDA_PLUGIN) $(GPU_TESTS:%=$(B)/%)
	$(Q)rm -rf $(CARRIED) && mkdir -p $(CARRIED)/tests/plain $(CARRIED)/lib
	$(Q)cp $(WEFT) $(CUDA_PLUGIN) $(CARRIED) && cp $(TESTED) $(CARRIED)/tests && cp $(GPU_TESTS:%=$(B)/%) $(CARRIED)/tests/plain
	$(Q)$(STRIP) $(CARRIED)/weft $(CARRIED)/*.so $(CARRIED)/tests/*.so $(CARRIED)/tests/plain/*
	$(Q)ldd $(WEFT) $(TESTED) | awk '$$3 ~ "^/" && $$1 !~ "^lib(c|m|pthread|dl|rt)[.]so" { print $$3 }' | sort -u | \
	    xargs -r cp -L -t $(CARRIED)/lib

# Stand-ins for libraries of CUDA, for tests: the kernels as functions of the host.
$(B)/tests/standin/%.o: CPPFLAGS += $(CUDA_FLAGS)
$(addprefix $(B)/tests/standin/,kernels.o cublaslt.o cudnn.o): EXTRA_FLAGS = $(KERNEL_FLAGS_$(VARIANT))
# A call before each access, which tests/standin/races.c answers. Sanitizers need the compiler for themselves.
$(B)/tests/standin/kernels.o: EXTRA_FLAGS += $(if $(filter %san,$(VARIANT)),,-fsanitize=thread -fno-tree-loop-distribute-patterns)
$(B)/standin/libcudart.so.13: $(patsubst %,$(B)/tests/standin/%.o,runtime events graphs queue clocks races kernels) $(B)/executor/comm/wait.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $^ -lm -pthread
$(B)/standin/libcublasLt.so.13: $(B)/tests/standin/cublaslt.o $(B)/standin/libcudart.so.13
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $^
$(B)/standin/libcudnn.so.9: $(B)/tests/standin/cudnn.o $(B)/standin/libcudart.so.13
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $^ -pthread
$(B)/standin/libnccl.so.2: $(B)/tests/standin/nccl.o $(B)/tests/standin/nccl_calls.o $(B)/tests/standin/nccl_far.o $(B)/tests/standin/nccl_register.o $(B)/standin/libcudart.so.13 $(LIB)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $^ -pthread
$(B)/standin/libnvtx.so: $(B)/tests/standin/nvtx.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $^

$(B)/executor/kernels/find.o: CPPFLAGS += $(KERNEL_ISAS:%=-DKERNELS_%)

# All kernels of one instruction set as one object that shows its table alone.
define KERNELS_OF
$$(B)/isa-$(1)/%.o: %.c | $$(B)/gen/framework.pb-c.h
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(KERNEL_FLAGS_$$(VARIANT)) $$(KERNEL_ISA_FLAGS_$(1)) -Wno-psabi $$(CPPFLAGS) \
	    -DKERNEL_TABLE=kernel_table_$(1) -MMD -MP -c -o $$@ $$<
$$(B)/kernels-$(1).o: $$(ISA_SRCS:%.c=$$(B)/isa-$(1)/%.o)
	$$(Q)$$(LD) -r -o $$@.all $$^
	$$(Q)$$(OBJCOPY) --keep-global-symbol=kernel_table_$(1) $$@.all $$@
	@rm -f $$@.all
endef
$(foreach isa,$(KERNEL_ISAS),$(eval $(call KERNELS_OF,$(isa))))

$(LIB): $(LIB_OBJS)
	@rm -f $@
	$(Q)ar rcs $@ $^
# What others link with shows the public functions alone. Our own tests use $(LIB), which shows everything.
SHARE := -shared -Wl,-soname,libweft.so.0 -Wl,--version-script=weft.map
$(SHLIB): $(LIB_OBJS) weft.map
	$(Q)$(CC) $(SHARE) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $(LIB_OBJS) $(LDLIBS)
$(B)/public/libweft.a: $(LIB_OBJS)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(LD) -r -o $(@D)/weft.o $^
	$(Q)$(OBJCOPY) --localize-hidden --wildcard --keep-global-symbol='weft_*' $(@D)/weft.o
	$(Q)ar rcs $@ $(@D)/weft.o
	@rm -f $(@D)/weft.o
# The library of the Python package finds beside itself what it needs.
$(B)/python/libweft.so: $(LIB_OBJS) weft.map
	@mkdir -p $(@D)
	$(Q)$(CC) $(SHARE) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/libs' -s $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ \
	    $(LIB_OBJS) $(LDLIBS)
WHEELS ?= $(B)/python/wheels
python: $(B)/python/libweft.so
	$(Q)python3 python/wheel.py $< $(B)/python $(WHEELS)
$(WEFT): $(CLI_OBJS) $(LIB)
	$(Q)$(CC) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $(CLI_OBJS) $(LIB) $(LDLIBS)

# For tests alone: the library with all that it has, linked once and not into each of them.
TESTED := $(B)/tests/libtested.so
LINK_TESTED = -Wl,-rpath,'$$ORIGIN/..' -o $@ $(filter-out %.so,$^) $(TESTED)
$(TESTED): $(LIB_OBJS) $(TEST_SUPPORT)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(B)/tests/unit/%: $(B)/tests/unit/%.o $(TESTED)
	$(Q)$(CC) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) $(LINK_TESTED) -lcriterion $(LDLIBS)
$(B)/tests/plain/%: $(B)/tests/plain/%.o $(TESTED)
	$(Q)$(CC) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) $(LINK_TESTED) $(LDLIBS)
.SECONDARY:

-include $(LIB_OBJS:.o=.d) $(MPI_OBJS:.o=.d) $(CUDA_OBJS:.o=.d) $(CUDA_SRCS:%.c=$(B)/coverage/%.d) $(wildcard $(B)/tests/standin/*.d) $(ISA_OBJS:.o=.d) $(CLI_OBJS:.o=.d) $(UNIT_TESTS:%=%.d) $(PLAIN_TESTS:%=%.d) $(TEST_SUPPORT:.o=.d) \
         $(BENCHES:%=%.d) $(B)/bench/synthetic.d

clean:
	$(Q)rm -rf $(BUILD)

format:
	$(Q)clang-format -i $$(git ls-files '*.c' '*.h')

test: setup
	$(Q)BUILD=$(BUILD) WERROR=$(WERROR) sh tests/all.sh

# The long checks too: every recorded program through the command, every fixture under every variant.
check-all: setup
	$(Q)BUILD=$(BUILD) WERROR=$(WERROR) sh tests/all.sh --long

# Paddle and PyTorch are gigabytes: an environment for each, made once, outside `make test`.
check-frameworks:
	+$(Q)BUILD=$(BUILD) sh python/frameworks/run.sh $(BUILD)/frameworks

# The plugin with other MPIs: all that tools/check_mpis.sh knows, or one by its compiler wrapper and its launcher.
MPIRUN ?= mpirun
check-mpi: lib cli $(B)/tests/plain/comm_mpi
	$(Q)$(MPICC_ENV) sh $(if $(filter auto 0 1,$(MPI)),tools/check_mpis.sh $(BUILD) $(VARIANT),tools/check_mpi.sh $(B) $(MPI) $(MPIRUN)) $(ALL_CFLAGS) -fvisibility=hidden $(CPPFLAGS)

check-deps: lib cli $(LIB_SRCS:%.c=$(B)/%.o)
	$(Q)sh tools/check_deps.sh
	$(Q)python3 tools/circles.py $(LIB_SRCS:%.c=$(B)/%.o) $(CLI_OBJS)

golden: all
	$(Q)WEFT=$(B)/weft sh tests/cli/golden.sh --rewrite

demo: all
	$(Q)WEFT=$(B)/weft BUILD=$(BUILD) sh examples/demo.sh

bench: all
	$(Q)$(MAKE) --no-print-directory benches
	$(Q)BENCH=$(B)/bench BUILD=$(BUILD) sh bench/run.sh

bench-bugs: all
	$(Q)WEFT=$(WEFT) sh bench/bugs/run.sh

# Pictures of docs/, of what the commands print.
docs: cli
	$(Q)WEFT=$(WEFT) sh tools/pictures.sh

benches: $(BENCHES) $(if $(MPI_PLUGIN),$(B)/bench/collectives)
# MPI's own beside ours: this one alone links MPI.
$(B)/bench/collectives: bench/collectives.c $(LIB) $(MPI_PLUGIN)
	@mkdir -p $(@D)
	$(Q)$(MPICC_ENV) $(MPICC) $(ALL_CFLAGS) $(CPPFLAGS) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)
$(B)/bench/%: $(B)/bench/%.o $(B)/bench/synthetic.o $(LIB)
	$(Q)$(CC) $(LDFLAGS_$(VARIANT)) $(LDFLAGS) -o $@ $< $(B)/bench/synthetic.o $(LIB) $(LDLIBS)

COMPLETIONS = $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions/weft zsh/site-functions/_weft \
              fish/vendor_completions.d/weft.fish)

install: lib cli $(B)/public/libweft.a
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include/weft $(DESTDIR)$(PREFIX)/bin \
	    $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/weft/configs/clusters
	install -m 644 $(B)/public/libweft.a $(DESTDIR)$(PREFIX)/lib/libweft.a
	$(if $(MPI_PLUGIN),install -d $(DESTDIR)$(PREFIX)/lib/weft && install -m 755 $(MPI_PLUGIN) $(DESTDIR)$(PREFIX)/lib/weft)
	$(if $(CUDA_PLUGIN),install -d $(DESTDIR)$(PREFIX)/lib/weft && install -m 755 $(CUDA_PLUGIN) $(DESTDIR)$(PREFIX)/lib/weft)
	install -m 755 $(SHLIB) $(DESTDIR)$(PREFIX)/lib/libweft.so.0
	ln -sf libweft.so.0 $(DESTDIR)$(PREFIX)/lib/libweft.so
	install -m 644 include/weft/*.h $(DESTDIR)$(PREFIX)/include/weft
	install -m 755 $(WEFT) $(DESTDIR)$(PREFIX)/bin/weft
	sh tools/man_page.sh $(WEFT) docs/weft.1 > $(DESTDIR)$(PREFIX)/share/man/man1/weft.1
	chmod 644 $(DESTDIR)$(PREFIX)/share/man/man1/weft.1
	install -m 644 configs/*.yaml $(DESTDIR)$(PREFIX)/share/weft/configs
	install -m 644 configs/clusters/*.yaml $(DESTDIR)$(PREFIX)/share/weft/configs/clusters
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBS@|$(filter -ldnnl -lgomp -llapack -lkissfft-float -lm -pthread,$(LDLIBS))|' weft.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/weft.pc
	chmod 644 $(DESTDIR)$(PREFIX)/lib/pkgconfig/weft.pc
	$(STRIP) --strip-debug $(DESTDIR)$(PREFIX)/lib/libweft.a $(DESTDIR)$(PREFIX)/lib/libweft.so.0 $(DESTDIR)$(PREFIX)/bin/weft
	install -d $(dir $(COMPLETIONS))
	for shell in bash zsh fish; do $(WEFT) help $$shell > $(DESTDIR)$(PREFIX)/share/$$(case $$shell in \
	    bash) echo bash-completion/completions/weft ;; zsh) echo zsh/site-functions/_weft ;; \
	    fish) echo fish/vendor_completions.d/weft.fish ;; esac) || exit 1; done

# What install made; folders that others share stay.
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/lib/libweft.a $(DESTDIR)$(PREFIX)/lib/libweft.so $(DESTDIR)$(PREFIX)/lib/libweft.so.0 \
	    $(DESTDIR)$(PREFIX)/lib/pkgconfig/weft.pc $(DESTDIR)$(PREFIX)/bin/weft \
	    $(DESTDIR)$(PREFIX)/share/man/man1/weft.1 $(COMPLETIONS)
	rm -rf $(DESTDIR)$(PREFIX)/include/weft $(DESTDIR)$(PREFIX)/share/weft $(DESTDIR)$(PREFIX)/lib/weft

help:
	@echo 'make demo        a real program, made data-parallel, trained on 4 ranks, with a timeline'
	@echo 'make test        every test, sanitizer variants included'
	@echo 'make check-all   the long checks too'
	@echo 'make             library and command into $(B)'
	@echo 'make check-frameworks  the Python package inside the real Paddle and PyTorch (downloads them)'
	@echo 'make check-gpu PARTS="kernels loopback ..."  what must hold on a GPU, in parts; what was skipped, and why'
	@echo 'make check-mpi         ranks as processes of MPICH and of Open MPI 5, where they are; MPI=MPICC MPIRUN=LAUNCHER: of that one'
	@echo 'make python      the Python package as a wheel; pip install ./python does the same'
	@echo 'make install     into PREFIX=$(PREFIX) below DESTDIR'
	@echo 'make golden      rewrite expected programs of tests/golden (review the diff)'
	@echo 'make bench-bugs  known bugs of collective programs: found, missed, false alarms'
	@echo 'make bench check-deps format clean'
