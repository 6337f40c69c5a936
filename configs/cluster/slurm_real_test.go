//go:build real

// Package cluster has the jobs that run the study on a cluster: for Slurm, and for
// Kubernetes. Its tests run the former on a real Slurm, if that is installed, and hold the
// latter to the published schema.
package cluster

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"prefdt/configs/built"
	"prefdt/configs/freeport"
	"prefdt/offline/experiment"
)

// slurmConf is one node on loopback: its daemons need no systemd, no control groups and no
// accounting. A task that is queued again waits for cred_expire, 120 s if not given; 5 s is
// the least that Slurm takes. config_overrides lets the node have four CPUs whatever the
// machine has.
var slurmConf = template.Must(template.New("").Parse(`ClusterName=loopback
SlurmctldHost={{.Host}}(127.0.0.1)
SlurmctldPort={{.ControllerPort}}
SlurmdPort={{.NodePort}}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={{.Dir}}/munge.socket,cred_expire=5
StateSaveLocation={{.Dir}}/state
SlurmdSpoolDir={{.Dir}}/spool
SlurmctldPidFile={{.Dir}}/slurmctld.pid
SlurmdPidFile={{.Dir}}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
NodeName=node NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP
`))

// slurm is a running cluster of one node.
type slurm struct {
	t       *testing.T
	workDir string // where jobs are submitted from
}

// startSlurm starts munged, slurmctld and slurmd, and waits until the node is idle.
func startSlurm(t *testing.T) *slurm {
	t.Helper()
	for _, program := range []string{"munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "sinfo", "scancel"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("Slurm is not installed: %v (apt-get install slurmctld slurmd slurm-client munge)", err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("slurmd starts jobs as root alone")
	}
	dir, err := os.MkdirTemp("", "prefdt-slurm")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &slurm{t: t, workDir: filepath.Join(dir, "work")}
	t.Cleanup(func() { // what slurmd started may write for a moment after it
		s.waitFor("an end of writing in "+dir, func() bool { return os.RemoveAll(dir) == nil })
	})
	for _, name := range []string{"state", "spool", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	var ports [2]int
	for i := range ports {
		if ports[i], err = freeport.Port(); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(dir, "slurm.conf")
	f, err := os.Create(conf)
	if err == nil {
		err = slurmConf.Execute(f, map[string]any{"Host": host, "Dir": dir, "ControllerPort": ports[0], "NodePort": ports[1]})
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "munge.key"), []byte(strings.Repeat("a key of this test alone ", 5)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", conf)
	at := func(name string) string { return filepath.Join(dir, name) }
	s.startDaemon(at("munged.log"), "munged", "--foreground", "--force", "--key-file="+at("munge.key"), "--socket="+at("munge.socket"),
		"--pid-file="+at("munged.pid"), "--seed-file="+at("munged.seed"), "--log-file="+at("munged.log"))
	s.waitFor("munge's socket", func() bool { _, err := os.Stat(at("munge.socket")); return err == nil })
	s.startDaemon(at("slurmctld.log"), "slurmctld", "-D")
	s.startDaemon(at("slurmd.log"), "slurmd", "-D", "-N", "node")
	s.waitFor("an idle node", func() bool {
		state, _ := exec.Command("sinfo", "--noheader", "--format=%T").Output()
		return strings.TrimSpace(string(state)) == "idle"
	})
	t.Cleanup(func() { // before the daemons end
		exec.Command("scancel", "--user=root").Run()
		s.waitFor("an empty queue", func() bool { return s.queue() == "" })
	})
	return s
}

func (s *slurm) startDaemon(logPath, name string, args ...string) {
	s.t.Helper()
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	daemon := exec.Command(name, args...)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		daemon.Process.Signal(os.Interrupt)
		daemon.Wait()
		log.Close()
		if s.t.Failed() {
			raw, _ := os.ReadFile(logPath)
			s.t.Logf("%s:\n%s", name, raw)
		}
	})
}

func (s *slurm) waitFor(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s; the queue: %s", what, s.queue())
		}
	}
}

// run runs a command where jobs are submitted from, and returns its output.
func (s *slurm) run(name string, args ...string) string {
	s.t.Helper()
	c := exec.Command(name, args...)
	c.Dir = s.workDir
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *slurm) queue() string {
	out, _ := exec.Command("squeue", "--noheader", "--format=%i %T").Output()
	return strings.TrimSpace(string(out))
}

// ended waits until a job has, and returns its state, its exit status and how often it was
// queued again.
func (s *slurm) ended(job string) (state string) {
	s.t.Helper()
	s.waitFor("the end of job "+job, func() bool {
		fields := map[string]string{}
		for _, word := range strings.Fields(s.run("scontrol", "show", "job", job)) {
			name, value, _ := strings.Cut(word, "=")
			fields[name] = value
		}
		state = fmt.Sprintf("%s %s restarts %s", fields["JobState"], fields["ExitCode"], fields["Restarts"])
		return !slices.Contains([]string{"PENDING", "RUNNING", "COMPLETING"}, fields["JobState"])
	})
	return state
}

func (s *slurm) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(s.workDir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}

// miniature is a study of seconds, whose training can be met in the middle.
const miniature = `checkpoint: configs/checkpoint
seeds: 2
ablation_seeds: 2
calibration_seeds: 1
link_seeds: 1
settings: 3
prices: 3
flights: 400
episodes: 1
train:
  arch: {width: 16, pair_width: 8, layers: 1, heads: 2, context: 1}
  batch: 1
  workers: 1
  seed: 1
  schedule: {rate: 0.001, final: 0.02, warm_up: 10, steps: 200, beta1: 0.9, beta2: 0.98, decay: 0.01, clip_norm: 1}
  weights: {choice: 1, offload: 3, class: 0.3, move: 1, price: 50}
`

// An array of three shards, of which one is ended by SIGTERM in the middle of a training run
// and one finds a half-written result, leaves after a repair and a merge what one run
// leaves, byte for byte.
func TestSlurm(t *testing.T) {
	s := startSlurm(t)
	if err := os.Mkdir(filepath.Join(s.workDir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := built.Program(filepath.Join(s.workDir, "bin", "offline"), "prefdt/offline"); err != nil {
		t.Fatal(err)
	}
	configs, err := filepath.Abs("..")
	if err == nil {
		err = os.Symlink(configs, filepath.Join(s.workDir, "configs"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.workDir, "study.yaml"), []byte(miniature), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"-config", "study.yaml", "-only", "even,controller,greedy,random,base,base-heads"}

	// Which shard trains, and which is to fail.
	const shards = 3
	training, failing := -1, -1
	var failingArms []string
	for i := range shards {
		var plan []struct{ Name, Run string }
		list := s.run("bin/offline", append([]string{"study", "-list", "-json", "-shard", fmt.Sprintf("%d/%d", i, shards)}, flags...)...)
		if err := json.Unmarshal([]byte(list), &plan); err != nil || len(plan) == 0 {
			t.Fatalf("shard %d: %v\n%s", i, err, list)
		}
		if plan[0].Run == "base" {
			training = i
		} else {
			failing, failingArms = i, nil
			for _, a := range plan {
				failingArms = append(failingArms, a.Name)
			}
		}
	}
	half := filepath.Join("out", "study", failingArms[0], "result.json")
	if err := os.MkdirAll(filepath.Dir(filepath.Join(s.workDir, half)), 0o755); err != nil {
		t.Fatal(err)
	}
	const halfWritten = `{"key":"0b5`
	if err := os.WriteFile(filepath.Join(s.workDir, half), []byte(halfWritten), 0o644); err != nil {
		t.Fatal(err)
	}

	sbatch := func(options ...string) string {
		t.Helper()
		s.t.Setenv("SHARDS", fmt.Sprint(shards))
		return s.run("sbatch", slices.Concat([]string{"--parsable", "--time=10"}, options, flags)...)
	}
	scripts := filepath.Join("configs", "cluster")
	array := sbatch("--cpus-per-task=1", fmt.Sprintf("--array=0-%d", shards-1), filepath.Join(scripts, "study.slurm"))
	merge := sbatch("--dependency=afterany:"+array, filepath.Join(scripts, "merge.slurm"), "-times=false")
	task := func(i int) string { return fmt.Sprintf("%s_%d", array, i) }
	log := fmt.Sprintf("study-%d.log", training)
	s.waitFor("the training", func() bool {
		raw, _ := os.ReadFile(filepath.Join(s.workDir, log))
		return strings.Contains(string(raw), "step 50/200")
	})
	s.run("scancel", "--batch", "--signal=TERM", task(training)) // as Slurm does before a job's time is over
	for i := range shards {
		want := "COMPLETED 0:0 restarts 0"
		switch i {
		case training:
			want = "COMPLETED 0:0 restarts 1"
		case failing:
			want = "FAILED 2:0 restarts 0"
		}
		if state := s.ended(task(i)); state != want {
			t.Errorf("shard %d: %s, want %s\n%s", i, state, want, s.read(fmt.Sprintf("study-%d.log", i)))
		}
	}
	if text := s.read(log); !strings.Contains(text, "offline study: interrupted in arm base") || strings.Count(text, "step 50/200") != 1 ||
		strings.Count(text, "step 200/200") != 1 {
		t.Errorf("it was not ended and continued in the middle of the training:\n%s", text)
	}
	if text := s.read(fmt.Sprintf("study-%d.log", failing)); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, half+" is damaged") || s.read(half) != halfWritten {
		t.Errorf("the half-written result: %s", text)
	}
	if state, text := s.ended(merge), s.read("study-merge.log"); state != "FAILED 2:0 restarts 0" || !strings.Contains(text, "is damaged") {
		t.Errorf("a merge over a half-written result: %s\n%s", state, text)
	}

	if err := os.Remove(filepath.Join(s.workDir, half)); err != nil {
		t.Fatal(err)
	}
	merge = sbatch(filepath.Join(scripts, "merge.slurm"), "-times=false")
	want := fmt.Sprintf("%d of 6 arms are not measured yet, and the report is without them: %s", len(failingArms),
		strings.Join(failingArms, ", "))
	if state, text := s.ended(merge), s.read("study-merge.log"); state != "FAILED 1:0 restarts 0" || !strings.Contains(text, want) {
		t.Errorf("a merge without a shard: %s, want %q\n%s", state, want, text)
	}
	again := sbatch(fmt.Sprintf("--array=%d", failing), filepath.Join(scripts, "study.slurm"))
	merge = sbatch("--dependency=afterany:"+again, filepath.Join(scripts, "merge.slurm"), "-times=false")
	if state := s.ended(merge); state != "COMPLETED 0:0 restarts 0" {
		t.Fatalf("the merge: %s\n%s", state, s.read("study-merge.log"))
	}

	whole, compared := filepath.Join(s.workDir, "out", "whole"), 0
	// What is searched and flown to train on is the same wherever it is made (TestPipeline of offline), and takes longest.
	for _, given := range []string{"teacher", "corpus"} {
		if err := os.CopyFS(filepath.Join(whole, given), os.DirFS(filepath.Join(s.workDir, "out", "study", given))); err != nil {
			t.Fatal(err)
		}
	}
	s.run("bin/offline", append([]string{"study", "-out", "out/whole", "-times=false"}, flags...)...)
	err = filepath.WalkDir(whole, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "log.csv" { // which has tokens per second
			return err
		}
		name, err := filepath.Rel(whole, path)
		if err != nil {
			return err
		}
		compared++
		measured := func(dir string) string {
			return string(experiment.WithoutRecord([]byte(s.read(filepath.Join("out", dir, name)))))
		}
		if measured("whole") != measured("study") {
			t.Errorf("%s of the merge is not that of one run", name)
		}
		return nil
	})
	if err != nil || compared < 20 {
		t.Errorf("%d files were compared: %v", compared, err)
	}
}

// scancel ends a job for good: what it saved is not queued again.
func TestSlurmCancel(t *testing.T) {
	s := startSlurm(t)
	if err := os.Mkdir(filepath.Join(s.workDir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The program, which takes a moment to save.
	program := "#!/bin/sh\ntrap 'sleep 0.3; exit 75' TERM\necho begun $*\nwhile :; do sleep 0.1; done\n"
	if err := os.WriteFile(filepath.Join(s.workDir, "bin", "offline"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("study.slurm")
	if err != nil {
		t.Fatal(err)
	}
	array := s.run("sbatch", "--parsable", "--array=0-1", "--cpus-per-task=1", script, "-out", "elsewhere")
	for i := range 2 { // both: a program that has not set its trap yet ends with another status
		s.waitFor("the tasks", func() bool {
			raw, _ := os.ReadFile(filepath.Join(s.workDir, fmt.Sprintf("study-%d.log", i)))
			return strings.Contains(string(raw), fmt.Sprintf("begun study -resume -shard %d/8 -out elsewhere", i))
		})
	}
	s.run("scancel", array)
	for i := range 2 {
		if state := s.ended(fmt.Sprintf("%s_%d", array, i)); state != "CANCELLED 75:0 restarts 0" && state != "CANCELLED 0:15 restarts 0" {
			t.Errorf("task %d: %s", i, state)
		}
	}
	s.waitFor("an empty queue", func() bool { return s.queue() == "" })
}
