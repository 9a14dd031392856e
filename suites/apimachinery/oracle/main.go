// Command oracle applies patches and configurations with upstream's libraries, one JSON document per line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type request struct {
	Op      string                  `json:"op"`
	Kind    string                  `json:"kind"`
	Version string                  `json:"apiVersion"`
	Doc     json.RawMessage         `json:"doc"`
	Patch   json.RawMessage         `json:"patch"`
	Manager string                  `json:"manager"`
	Force   bool                    `json:"force"`
	Schemas map[string]*spec.Schema `json:"schemas"`
}

type reply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Fields []string        `json:"fields,omitempty"`
}

type plain struct{}

func (plain) Default(runtime.Object) {}
func (plain) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]interface{}{}}
	object.SetGroupVersionKind(kind)
	return object, nil
}
func (plain) Convert(in, out, context interface{}) error { return fmt.Errorf("not supported") }
func (plain) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (plain) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

var managers = map[string]*managedfields.FieldManager{}

func fieldManager(r request) (*managedfields.FieldManager, error) {
	key := r.Version + "/" + r.Kind
	if found, ok := managers[key]; ok {
		return found, nil
	}
	converter, err := managedfields.NewTypeConverter(r.Schemas, false)
	if err != nil {
		return nil, err
	}
	kind := schema.FromAPIVersionAndKind(r.Version, r.Kind)
	made, err := managedfields.NewDefaultCRDFieldManager(
		converter, plain{}, plain{}, plain{}, kind, kind.GroupVersion(), "", nil)
	if err == nil {
		managers[key] = made
	}
	return made, err
}

func object(raw json.RawMessage) (*unstructured.Unstructured, error) {
	result := &unstructured.Unstructured{}
	return result, json.Unmarshal(raw, &result.Object)
}

func own(r request) (runtime.Object, error) {
	manager, err := fieldManager(r)
	if err != nil {
		return nil, err
	}
	live, err := object(r.Doc)
	if err != nil {
		return nil, err
	}
	changed, err := object(r.Patch)
	if err != nil {
		return nil, err
	}
	if r.Op == "apply" {
		return manager.Apply(live, changed, r.Manager, r.Force)
	}
	return manager.Update(live, changed, r.Manager)
}

func strategic(r request) ([]byte, error) {
	kind := schema.FromAPIVersionAndKind(r.Version, r.Kind)
	typed, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(r.Doc, r.Patch, typed)
}

func answer(line []byte) (out reply) {
	defer func() {
		if problem := recover(); problem != nil {
			out = reply{Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return reply{Error: err.Error()}
	}
	if r.Op == "strategic" {
		result, err := strategic(r)
		if err != nil {
			return reply{Error: err.Error()}
		}
		return reply{Result: result}
	}
	result, err := own(r)
	if err != nil {
		out := reply{Error: err.Error()}
		type status interface{ Status() metav1.Status }
		if known, ok := err.(status); ok && known.Status().Details != nil {
			for _, cause := range known.Status().Details.Causes {
				out.Fields = append(out.Fields, cause.Message+" "+cause.Field)
			}
		}
		return out
	}
	accessor, _ := meta.Accessor(result)
	entries := accessor.GetManagedFields()
	for index := range entries {
		entries[index].Time = nil
	}
	accessor.SetManagedFields(entries)
	raw, _ := json.Marshal(result)
	return reply{Result: raw}
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), 1<<26)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		_ = output.Encode(answer(input.Bytes()))
	}
}
