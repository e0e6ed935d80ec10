package devicefile

import (
	"fmt"
	"strconv"
	"strings"

	"godwit/internal/yaml"
)

// wish is which devices are asked for, by GODWIT_DEVICES or exec's --devices. One of the three is
// there; none where nothing is asked for.
//
//	4                how many
//	gpu1,gpu0  2,0   which, in this order: by number or name, as a mask of the devices there would be
//	1,               a number with a comma is which; without it is how many
//	./devices.yaml   a file: what has a / or a . in it
type wish struct {
	Count int
	List  []string
	File  string
}

// ParseWish reads a wish. It does not read the file.
func ParseWish(text string) (w wish, err error) {
	if text == "" {
		return w, nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		w.Count = n
		return w, checkCount(n)
	}
	if strings.ContainsAny(text, "/.") {
		w.File = text
		return w, nil
	}
	list := strings.Split(strings.TrimSuffix(text, ","), ",")
	if len(list) > maxDevices {
		return w, fmt.Errorf("a list of %d devices: there can be 1 to %d", len(list), maxDevices)
	}
	for i, item := range list {
		if list[i] = strings.TrimSpace(item); list[i] == "" {
			return w, fmt.Errorf("%q: item %d of the list is empty: want numbers or names with commas between", yaml.Short(text), i)
		}
		if len(list[i]) > maxName {
			return w, fmt.Errorf("%q: item %d of the list: a name has at most %d bytes", yaml.Short(text), i, maxName)
		}
	}
	w.List = list
	return w, nil
}
