# The targets people type. `make` alone prints them.
export CGO_ENABLED = 0
# Programs are stripped, as tests are: the compiler writes no data for debuggers, which takes it a sixth of its time.
GOFLAGS ?= -trimpath -gcflags=all=-dwarf=false
export GOFLAGS
GO ?= go
PROGRAMS = leader simbridge offline ground worker worker-module user blobs
leader_PKG = ./firmware
simbridge_PKG = ./simbridge
offline_PKG = ./offline
ground_PKG = ./telemetry/ground
worker_PKG = ./firmware/worker
worker-module_PKG = ./firmware/worker/module
user_PKG = ./firmware/user
blobs_PKG = ./firmware/worker/blobs
LDFLAGS = -s -w

# The pipeline's folders and sizes; see docs/researcher.md.
OUT ?= out/pipeline
FLIGHTS ?= 64000
STEPS ?= 4000
CHECKPOINT ?= configs/checkpoint

.PHONY: help run test test-real sitl sitlacts probes emulated emulated-arm64 emulated-armv7 race fuzz bench build arm64 armv7 deb lint mutants checkpoint study pictures notice clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

AUTOPILOT ?= px4
# A flight, compared with the simplest alternative although it may have ended with an error. One that failed
# before its slots leaves the report of an earlier one. What compares is built during the flight, which leaves
# most of the time of the cores: a first run is half a minute shorter.
IDLE = $(shell command -v chrt >/dev/null && echo chrt -i 0 || echo nice -n 19)
flyAndCompare = mkdir -p $(2); touch $(2)/.began; $(IDLE) $(MAKE) --no-print-directory bin/offline & built=$$!; \
	bin/simbridge fly $(1) -checkpoint $(CHECKPOINT); flown=$$?; wait $$built || exit; \
	if test $(2)/summary.json -nt $(2)/.began; then bin/offline compare -flight $(2) || flown=$$?; fi; exit $$flown
run: $(addprefix bin/,simbridge leader ground $(if $(TASKS),worker user blobs)) ## fly a mission: broker, users, autopilots, leader; ends by itself in under a minute; WORLD=field: with a hidden state; TASKS=real: with tasks that are computed; PACKS=45kJ,60kJ: all land with at least 20 % of these; AUTOPILOT=ardupilot or mixed
ifeq ($(TASKS),real)
	$(call flyAndCompare,-config configs/fly-tasks.yaml,out/tasks)
else ifneq ($(PACKS),)
	$(call flyAndCompare,-config configs/fly-packs.yaml -packs $(PACKS),out/packs)
else ifeq ($(WORLD),)
	$(call flyAndCompare,-config configs/fly.yaml -autopilot $(AUTOPILOT),out/run)
else
	$(call flyAndCompare,-config configs/fly-field.yaml -world $(WORLD) -out out/$(WORLD),out/$(WORLD))
endif

# What flies in these tests does so in virtual time: none minds what runs beside it. `make lint` vets everything, once.
# Compiler, linker and tests allocate much and keep little.
test test-real race: export GOGC = 400
test: ## all tests in virtual time
	$(GO) test -vet=off -timeout 20m ./...

# What must be real is in files of its own, with a build tag: processes, browsers, mosquitto, Slurm, shares of a CPU (CONTRIBUTING.md has
# the list). They wait for most of their time: twice as many packages run as there are processors.
REAL_FILES = $(shell grep -rl --include='*_real*_test.go' '^//go:build real' .)
REAL_TESTS = $(shell grep -ho '^func Test[A-Z]\w*' $(REAL_FILES) | sed 's/func //; /^TestMain$$/d' | paste -sd'|')
test-real: ## the tests of programs, browsers and daemons, in real time
	$(GO) test -vet=off -tags real -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -timeout 20m -run '^($(REAL_TESTS))$$' $(sort $(dir $(REAL_FILES)))

# No test of these needs the machine's own time or sockets. arm64 has kernels of its own, and sums products with one rounding; armv7 has
# integers and addresses of 32 bits.
UNTIMED = $(addprefix ./,firmware/account firmware/crew firmware/energy firmware/envelope firmware/fleet firmware/ledger firmware/mission \
	firmware/schedule firmware/users firmware/worker/blobs firmware/workers telemetry telemetry/task)
EMULATED_arm64 = ./inference/... ./telemetry ./firmware/account ./firmware/energy ./firmware/envelope
EMULATED_armv7 = $(addprefix ./inference/,budget checkpoint dispatch duty goal kernel model physics record slot token) $(UNTIMED)
emulated: emulated-arm64 emulated-armv7 ## the tests that need neither time nor sockets on arm64 and armv7, under qemu
emulated-arm64: export GOARCH = arm64
emulated-armv7: export GOARCH = arm
emulated-armv7: export GOARM = 7
# What compares many results of one program with one another no processor changes, and an emulator takes minutes for it.
SAME := TestLongTasksAreServed|TestAircraftWithOtherCPUs|TestPermutation|TestSound|TestWindow|TestSensorIsNoWind|TestManyUsers
SAME := $(SAME)|TestMissingGain|Test(One|Two|Few|Inexact)(Wrong)?(Sensor|Readings?)|TestGapTo.*|TestSeparation(InARow|UnderDelay)
SAME := $(SAME)|Test(FlownIsMeasured|LastRows|MissionsAreUsedOnce|NoAllocation|ExpectedOffload|OfferOfALateLeader|SignatureCoversEveryPart)
SAME := $(SAME)|Test(ManyStations|BoundedWork)
SAME := $(SAME)|Test(EightComeHome|LateOnesComeHome|GivesWayInsideTheFence|Recover|LostPage|LossOfPower)
SAME := $(SAME)|Test(RowWithAMissedSlot|MakesWay|LateOnesReachTheirStarts|PilotActsInEveryPhase)
# A process that qemu emulates, and that forks, may wait for ever for a lock of qemu's that another of its threads held.
FORKS := TestDiskFailure|TestDecoderLinksWhatItNeeds
QEMU_arm64 = qemu-aarch64-static
QEMU_armv7 = qemu-arm-static
emulated-arm64 emulated-armv7: emulated-%:
	$(GO) test -vet=off -short -skip '^($(SAME)|$(FORKS))$$' -exec $(QEMU_$*) $(EMULATED_$*)
	$(GO) test -vet=off -exec $(QEMU_$*) -run TestParity ./offline/rollout

# Real autopilots fly in real time: builds of theirs are in PREFDT_SITL, by default ../shared/sitl.
sitl: build ## fly a mission on two real PX4, two ArduCopter and one of each, by docs/integrator.md; REPEAT=2 of each
	bin/simbridge real -skip -repeat $(REPEAT)
sitlacts: build ## fly what may go wrong on real autopilots; REPEAT=2 of each
	bin/simbridge real -acts -repeat $(REPEAT)
probes: build ## ask real autopilots and simulated ones the same, ten minutes; what differs fails
	bin/simbridge real -probes -skip -out out/probes
REPEAT ?= 1

# The race detector needs cgo. It finds nothing in programs of their own, which tests build without it (simbridge/mutants). An executor
# of modules has less memory than it needs, and tasks of a user's device take more than their grant. Under it a decision allocates what it
# does not else.
# What one goroutine computes from its arguments cannot race: accounts, plans, models, the judge.
RACELESS = simbridge/mutants|firmware/worker/module|firmware/user(/device)?|$(PURE)
PURE = firmware/(account|crew|energy|envelope|mission|schedule)|simbridge/(battery|chart|geo|judge|report|world)
# Of flights those are chosen in which goroutines meet in another way: flights that differ in what is computed take ten times as long
# here, and find nothing. chaos flies missions under it, too. Files that are damaged in many ways are read by one goroutine.
FLIGHTS := TestMission|TestRestart|TestRestartedBesideAnotherLeader|TestLostAircraft|TestForgedLeader|TestBurstOfCommands|TestBrokerLost
FLIGHTS := $(FLIGHTS)|TestPilotTakesOver|TestSlowDecisions|TestOldMessagesComeFirst|TestUsersGoWhereAWorkerIsReceived|TestKilledWhileLanding
FLIGHTS := $(FLIGHTS)|TestCrewContactLost|TestSigningFailsClosed|TestTornTransaction|TestAttachedAutopilots|TestSerialFliesAsUDP
FLIGHTS := $(FLIGHTS)|TestRecord
SLOW := TestEightComeHome|TestLateOnesComeHome|TestRecover|TestLostPage|TestLossOfPower|TestBoundedSize
SLOW := $(SLOW)|TestResultCutOff|TestRowWithAMissedSlot|TestMakesWay|TestReturnsAtAdvisedHeights
race: export CGO_ENABLED = 1
race: ## what flies and serves, under the race detector
	$(GO) test -vet=off -timeout 40m -race -short -skip '^($(SLOW))$$' \
		$$($(GO) list ./firmware/... ./simbridge/... ./telemetry/... | grep -vE '/($(RACELESS)|firmware/leader|simbridge/fly)$$')
	$(GO) test -vet=off -timeout 40m -race -short -run '^($(FLIGHTS))$$' ./firmware/leader ./simbridge/fly
	$(GO) test -vet=off -race -short -run '/decided_local' ./firmware/user/device

# Go fuzzes one target at a time. What it finds stands in testdata/fuzz of the package.
# It would make every find smaller for a minute each, and look for nothing meanwhile.
FUZZTIME ?= 10m
FUZZ ?= Fuzz
fuzz: ## every fuzz target in turn, FUZZTIME=10m each; FUZZ=Budget for those so named
	@grep -ro --include=*_test.go '^func Fuzz[A-Za-z]*' . | sed 's,/[^/]*:func , ,' | grep '$(FUZZ)' | sort | while read dir target; do \
		echo "$$dir $$target"; $(GO) test $$dir -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x || exit 1; done

bench: build arm64 armv7 ## Go's benchmarks, for benchstat; instructions on arm64; then step, rollout and leader, with PREFDT_ORT beside ONNX Runtime
	$(GO) test -run '^$$' -bench . -benchtime 0.2s ./inference/... ./telemetry ./simbridge/world ./offline/...
	.ci/instructions $(INSTRUCTIONS)
	bin/offline bench
INSTRUCTIONS = M=2/U=10 M=2/U=100 M=8/U=10

build: $(PROGRAMS:%=bin/%) ## all programs for this machine, into bin/

arm64: ## the same for arm64, into bin/arm64/
	@$(MAKE) --no-print-directory cross GOARCH=arm64 DIR=bin/arm64

armv7: ## the same for armv7, into bin/armv7/
	@$(MAKE) --no-print-directory cross GOARCH=arm GOARM=7 DIR=bin/armv7

.PHONY: cross $(PROGRAMS:%=bin/%)
cross: export GOOS = linux
cross: export GOARCH := $(GOARCH)
cross: export GOARM := $(GOARM)
cross:
	@$(foreach p,$(PROGRAMS),echo "$(DIR)/$(p)"; $(GO) build -ldflags "$(LDFLAGS)" -o "$(DIR)/$(p)" "$($(p)_PKG)" || exit 1;)

# go build knows better than make what is up to date.
$(PROGRAMS:%=bin/%): bin/%:
	@test -e $@ || echo "building $@"
	@$(GO) build -ldflags "$(LDFLAGS)" -o $@ $($*_PKG)

# The package's version, the architectures in Debian's names, and what is shipped to boards. Files of a package have the time of its commit,
# so that a commit gives the same bytes wherever it is built.
VERSION ?= 0.1.0
ARCH ?= amd64 arm64 armhf
SHIPPED = leader ground worker worker-module user
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
TOOL = $(GO) tool -modfile=.ci/tools.mod

.PHONY: amd64 manuals release $(addprefix deb-,amd64 arm64 armhf)
amd64:
	@$(MAKE) --no-print-directory cross GOARCH=amd64 DIR=bin/amd64
manuals: $(SHIPPED:%=bin/%) # pages for man, of what -h prints
	@mkdir -p bin/man
	@for p in $(SHIPPED); do .ci/manual bin/$$p $(VERSION) $$(date -u -d @$(SOURCE_DATE_EPOCH) +%F) | gzip -9n >bin/man/$$p.1.gz; done
deb: $(ARCH:%=deb-%) ## Debian packages of leader, ground, worker and user for amd64, arm64 and armhf, into bin/deb/; ARCH=arm64: that one alone
deb-amd64: amd64
deb-arm64: arm64
deb-armhf: armv7
deb-amd64 deb-arm64 deb-armhf: deb-%: manuals
	@mkdir -p bin/deb
	@ARCH=$* BIN=bin/$(subst armhf,armv7,$*) VERSION=$(VERSION) $(TOOL) nfpm package -f configs/deb/nfpm.yaml -p deb -t bin/deb/

release: deb ## a release into bin/release/: packages, archives of all programs, what each shipped program is linked with (CycloneDX), checksums
	@rm -rf bin/release && mkdir -p bin/release
	@cp bin/deb/prefdt_$(VERSION)_*.deb bin/release/
	@for arch in amd64 arm64 armv7; do name=prefdt-$(VERSION)-linux-$$arch; \
		tar --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --mode=go-w --owner=0 --group=0 --numeric-owner --transform "s,^,$$name/,;s,/bin/$$arch/,/bin/," \
			-cf - $(PROGRAMS:%=bin/$$arch/%) $$(git ls-files configs docs README.md NOTICE CHANGELOG.md) | gzip -9n >bin/release/$$name.tar.gz; done
	@$(foreach p,$(SHIPPED),$(TOOL) cyclonedx-gomod app -json -std -noserial -notimestamp -short-purls \
		-main $($(p)_PKG) -output bin/release/$(p)-$(VERSION).cdx.json || exit 1;)
	@cd bin/release && sha256sum * >SHA256SUMS && cat SHA256SUMS

lint: ## formatting, go vet and staticcheck
	@test -z "$$(gofmt -l .)" || { echo "not formatted: $$(gofmt -l .)"; exit 1; }
	$(GO) vet -tags real ./...
	$(TOOL) staticcheck -tags real ./...

mutants: bin/simbridge ## plant faults in the leader, one at a time: what notices them? resumable; SAMPLE=10 of them, MOST=3 missions each
	bin/simbridge mutants -sample $(SAMPLE) -jobs $(JOBS) -most $(MOST)
SAMPLE ?= 0
MOST ?= 12
JOBS ?= 3

checkpoint: bin/offline ## search, corpus, training, calibration, export and evaluation, resumable
	bin/offline search -out $(OUT)/search -resume
	bin/offline search -evaluate $(OUT)/search/archive.json
	bin/offline corpus -out $(OUT)/corpus -flights $(FLIGHTS) -merge $(OUT)/search/archive.json -resume
	bin/offline train -corpus $(OUT)/corpus -out $(OUT)/train -steps $(STEPS) -resume
	bin/offline calibrate -corpus $(OUT)/corpus -train $(OUT)/train
	bin/offline train-estimator -window 20 -out $(OUT)/estimator-20 -resume
	bin/offline train-estimator -from $(OUT)/estimator-20 -window 40 -steps 1600 -out $(OUT)/estimator -resume
	bin/offline export -corpus $(OUT)/corpus -train $(OUT)/train -estimator $(OUT)/estimator -out $(CHECKPOINT)
	bin/offline evaluate -checkpoint $(CHECKPOINT) -budget
	@test $(CHECKPOINT) != configs/checkpoint || $(GO) test ./offline/rollout -run TestParity -record # what other processors are held to
	@test $(CHECKPOINT) != configs/checkpoint || $(GO) test ./offline/evaluate -run Recorded -record

study: bin/offline ## the comparison of all arms on one protocol, resumable; see docs/researcher.md
	bin/offline study -out out/study -resume

pictures: build ## fly the demonstration and draw docs/images anew
	bin/simbridge fly -config configs/fly.yaml -out out/pictures
	bin/offline compare -flight out/pictures
	cp out/pictures/flight.gif out/pictures/even.png docs/images/
	$(GO) test ./docs -run TestPicture -record

notice: ## collect the licences of the modules that the programs are linked with, into NOTICE
	.ci/notice >NOTICE

clean: ## remove bin and out
	rm -rf bin out
