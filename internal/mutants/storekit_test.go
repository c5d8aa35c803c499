// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "driver/storekit"
	kit := func(name, file, old, new, test string) mutant {
		return mutant{name: "storekit: " + name, file: pkg + "/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	mutants = append(mutants,
		kit("a part of the password is a host", "url.go", `strings.ContainsAny(tail, "@#")`, `strings.ContainsAny(tail, "#")`, "TestParseURL"),
		kit("a port may be a word", "url.go", "one, err := url.Parse(\"any://\" + host)\n\t\tif err != nil {", "one, err := url.Parse(\"any://\" + host)\n\t\tif err != nil {\n\t\t\tone, err = &url.URL{Host: host}, nil\n\t\t}\n\t\tif err != nil {", "TestParseURL"),
		kit("what cannot be read is left out", "url.go", "\t\treturn ErrQuery\n\t}\n\tvar names", "\t\terr = nil\n\t}\n\tvar names", "TestReadQuery"),
		kit("the environment goes before the options", "url.go", "cmp.Or(*password, os.Getenv(env))", "cmp.Or(os.Getenv(env), *password)", "TestReadUser"),
		kit("the rest of the TLS options is lost", "tls.go", "conf = conf.Clone()", "conf = &tls.Config{ServerName: conf.ServerName}", "TestServerName"),
	)
}
