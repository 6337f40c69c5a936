package cluster

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "testdata/kubernetes.schema.json"

// kubernetesVersion is of the published schema; go mod download -json
// k8s.io/kubernetes@v1.33.0 has the file for -record.
const kubernetesVersion = "1.33.0"

// record makes the schema from the folder api/openapi-spec/v3 of Kubernetes' source.
var record = flag.String("record", "", "make "+schemaFile+" from this `FOLDER`, and check nothing")

// kinds are those that the manifests have, by the published document that has their type.
var kinds = map[string]struct{ document, name string }{
	"Job":        {"apis__batch__v1_openapi.json", "io.k8s.api.batch.v1.Job"},
	"Deployment": {"apis__apps__v1_openapi.json", "io.k8s.api.apps.v1.Deployment"},
	"Service":    {"api__v1_openapi.json", "io.k8s.api.core.v1.Service"},
}

// schema is the part of the published OpenAPI documents that the kinds refer to.
type schema struct {
	Comment     string         `json:"$comment"`
	Definitions map[string]any `json:"$defs"`
}

func recordSchema(folder string) error {
	s := schema{
		Comment: "The types that a Job, a Deployment and a Service refer to, without descriptions, of api/openapi-spec/v3 of " +
			"Kubernetes " + kubernetesVersion + ", https://github.com/kubernetes/kubernetes. Copyright The Kubernetes Authors, Apache " +
			"License 2.0, https://www.apache.org/licenses/LICENSE-2.0",
		Definitions: map[string]any{},
	}
	for _, kind := range kinds {
		if err := s.take(filepath.Join(folder, kind.document), kind.name); err != nil {
			return err
		}
	}
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(schemaFile, append(raw, '\n'), 0o644)
}

// take adds a type of a published document, and the types that it refers to.
func (s *schema) take(path, name string) error {
	var published struct {
		Components struct{ Schemas map[string]any }
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &published)
	}
	if err != nil {
		return err
	}
	var take func(x any) any
	take = func(x any) any {
		switch x := x.(type) {
		case map[string]any:
			kept := map[string]any{}
			for key, value := range x {
				_, text := value.(string)
				if name, found := strings.CutPrefix(fmt.Sprint(value), "#/components/schemas/"); found && key == "$ref" {
					kept[key] = "#/$defs/" + name
					if s.Definitions[name] == nil {
						s.Definitions[name] = true // it may refer to itself
						s.Definitions[name] = take(published.Components.Schemas[name])
					}
				} else if !(text && key == "description") && !strings.HasPrefix(key, "x-kubernetes-") {
					kept[key] = take(value)
				}
			}
			return kept
		case []any:
			kept := make([]any, len(x))
			for i := range x {
				kept[i] = take(x[i])
			}
			return kept
		}
		return x
	}
	take(map[string]any{"$ref": "#/components/schemas/" + name})
	return nil
}

// strict refuses every key that a type does not have, as the API server does when kubectl
// asks it to; the published schema leaves that open.
func strict(x any) {
	switch x := x.(type) {
	case map[string]any:
		if _, object := x["properties"].(map[string]any); object && x["additionalProperties"] == nil {
			x["additionalProperties"] = false
		}
		for _, value := range x {
			strict(value)
		}
	case []any:
		for _, value := range x {
			strict(value)
		}
	}
}

func loadSchema(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	strict(parsed)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kubernetes.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled := map[string]*jsonschema.Schema{}
	for kind, of := range kinds {
		if compiled[kind], err = c.Compile("kubernetes.json#/$defs/" + of.name); err != nil {
			t.Fatal(err)
		}
	}
	return compiled
}

// check checks each document of a manifest by its kind.
func check(compiled map[string]*jsonschema.Schema, manifest string) error {
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return err
		}
		var head struct{ Kind string }
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		x, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		s := compiled[head.Kind]
		if s == nil {
			return fmt.Errorf("kind %q, want one of those in kinds", head.Kind)
		}
		if err := s.Validate(x); err != nil {
			return err
		}
	}
	return nil
}

// The manifests follow the published schema, which finds a misspelt key, a wrong type and
// what is missing.
func TestManifestsFollowTheSchema(t *testing.T) {
	if *record != "" {
		if err := recordSchema(*record); err != nil {
			t.Fatal(err)
		}
		return
	}
	compiled := loadSchema(t)
	job := [][2]string{
		{"restartPolicy:", "restartpolicy:"},
		{"restartPolicy: Never", "restartPolicy: [Never]"},
		{"        - name: study\n          persistent", "        - persistent"},
		{"claimName: study", "claim: study"},
	}
	for name, faults := range map[string][][2]string{
		"kubernetes.yaml":       job,
		"kubernetes-merge.yaml": job,
		"kubernetes-tasks.yaml": {
			{"replicas: 4", "replicas: four"},
			{"  selector:\n    matchLabels: {app: blobs}\n", ""},
			{"targetPort:", "targetport:"},
			{"kind: Service", "kind: service"},
		},
	} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(compiled, string(raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, bad := range faults {
			if changed := strings.Replace(string(raw), bad[0], bad[1], 1); changed == string(raw) || check(compiled, changed) == nil {
				t.Errorf("%s: %q in place of %q was not found", name, bad[1], bad[0])
			}
		}
	}
}

// What the schema does not say: the shards are as many as the indexes, and each exit status
// of offline study is dealt with as it means.
func TestIndexedJob(t *testing.T) {
	raw, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Spec struct {
			CompletionMode       string `yaml:"completionMode"`
			PodReplacementPolicy string `yaml:"podReplacementPolicy"`
			Completions          int    `yaml:"completions"`
			BackoffLimitPerIndex int    `yaml:"backoffLimitPerIndex"`
			PodFailurePolicy     struct {
				Rules []struct {
					Action      string `yaml:"action"`
					OnExitCodes struct {
						ContainerName string `yaml:"containerName"`
						Operator      string `yaml:"operator"`
						Values        []int  `yaml:"values"`
					} `yaml:"onExitCodes"`
				} `yaml:"rules"`
			} `yaml:"podFailurePolicy"`
			Template struct {
				Spec struct {
					RestartPolicy string `yaml:"restartPolicy"`
					Containers    []struct {
						Name string   `yaml:"name"`
						Args []string `yaml:"args"`
					} `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(raw, &job); err != nil {
		t.Fatal(err)
	}
	x, pod := &job.Spec, &job.Spec.Template.Spec
	container := pod.Containers[0]
	if want := []string{"study", "-resume", "-shard", fmt.Sprintf("$(JOB_COMPLETION_INDEX)/%d", x.Completions), "-out",
		"/study/out"}; !reflect.DeepEqual(container.Args, want) {
		t.Errorf("arguments %q, want %q", container.Args, want)
	}
	// A failure policy and a limit for each index are allowed with these alone.
	if x.CompletionMode != "Indexed" || pod.RestartPolicy != "Never" || x.PodReplacementPolicy != "Failed" || x.BackoffLimitPerIndex < 1 {
		t.Errorf("%+v", x)
	}
	actions := map[int]string{}
	for _, rule := range x.PodFailurePolicy.Rules {
		for _, status := range rule.OnExitCodes.Values {
			actions[status] = rule.Action
			if rule.OnExitCodes.ContainerName != container.Name || rule.OnExitCodes.Operator != "In" {
				t.Errorf("a rule of status %d is for container %q", status, rule.OnExitCodes.ContainerName)
			}
		}
	}
	if want := map[int]string{75: "Ignore", 2: "FailIndex"}; !reflect.DeepEqual(actions, want) {
		t.Errorf("actions by exit status %v, want %v", actions, want)
	}
}
