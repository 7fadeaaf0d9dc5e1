package statement

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// schema is the published definition of the message, testdata/camt.053.001.08.xsd: ISO 20022's own
// file of 14 February 2019, from github.com/moov-io/iso20022.
type schema struct {
	Root    schemaElement `xml:"element"`
	Complex []schemaType  `xml:"complexType"`
	Simple  []schemaType  `xml:"simpleType"`
}

type schemaElement struct {
	Name  string `xml:"name,attr"`
	Type  string `xml:"type,attr"`
	Least string `xml:"minOccurs,attr"` // "" is 1
	Most  string `xml:"maxOccurs,attr"` // "" is 1
}

type schemaType struct {
	Name     string          `xml:"name,attr"`
	Sequence []schemaElement `xml:"sequence>element"`
	Choice   []schemaElement `xml:"choice>element"`
	Shortest schemaFacet     `xml:"restriction>minLength"`
	Longest  schemaFacet     `xml:"restriction>maxLength"`
}

type schemaFacet struct {
	Value string `xml:"value,attr"`
}

// schemaTypes maps the forms of the definition to types of the schema. Each form allows no more
// than its type.
var schemaTypes = map[string]string{
	"DateTime": "ISODateTime", "Amount": "ActiveOrHistoricCurrencyAndAmount", "Decimal": "DecimalNumber",
	"Magnitude": "NonNegativeDecimalNumber", "Direction": "CreditDebitCode", "Currency": "ActiveOrHistoricCurrencyCode",
	"Count": "Max15NumericText",
}

// Each element of the definition is in the schema, with its order, occurrence and type, and each
// required element of the schema is in the definition. A message that conforms to the definition
// therefore conforms to the schema.
func TestDefinitionIsThePublishedOne(t *testing.T) {
	text, err := os.ReadFile("testdata/camt.053.001.08.xsd")
	require.NoError(t, err)
	var s schema
	require.NoError(t, xml.Unmarshal(text, &s))
	document := readDefinition(t).children
	require.Len(t, document, 1)
	require.Equal(t, s.Root.Name, document[0].name)
	require.NoError(t, s.holds(document[0], s.Root.Type, "/"+s.Root.Name))
}

func find(types []schemaType, name string) (schemaType, bool) {
	i := slices.IndexFunc(types, func(t schemaType) bool { return t.Name == name })
	if i < 0 {
		return schemaType{}, false
	}
	return types[i], true
}

// holds compares an element of the definition with its type.
func (s *schema) holds(r *rule, typeName, path string) error {
	if r.form != nil {
		return s.holdsText(r, typeName, path)
	}
	published, known := find(s.Complex, typeName)
	if !known || r.choice != (len(published.Choice) > 0) {
		return fmt.Errorf("%s: the schema has %s, choice: %v", path, typeName, len(published.Choice) > 0)
	}
	next := 0
	for _, e := range append(published.Sequence, published.Choice...) {
		least, many := e.Least != "0" && !r.choice, e.Most == "unbounded"
		if next == len(r.children) || r.children[next].name != e.Name {
			if least {
				return fmt.Errorf("%s/%s: required, and not in the definition", path, e.Name)
			}
			continue
		}
		child := r.children[next]
		if next++; least && child.least == 0 || many != child.many {
			return fmt.Errorf("%s/%s: the schema has %q to %q", path, e.Name, e.Least, e.Most)
		}
		if err := s.holds(child, e.Type, path+"/"+e.Name); err != nil {
			return err
		}
	}
	if next < len(r.children) {
		return fmt.Errorf("%s/%s: not in the schema, or not in this place", path, r.children[next].name)
	}
	return nil
}

// holdsText compares the form of a text: the type that it stands for, or the length of Text.
func (s *schema) holdsText(r *rule, typeName, path string) error {
	if want, fixed := schemaTypes[r.what]; fixed {
		if want != typeName {
			return fmt.Errorf("%s: %s, the schema has %s", path, r.what, typeName)
		}
		return nil
	}
	published, known := find(s.Simple, typeName)
	if !known || r.what != "Text"+published.Longest.Value || published.Shortest.Value != "1" {
		return fmt.Errorf("%s: %s, the schema has %+v", path, r.what, published)
	}
	return nil
}
