# What one does here. "make" alone lists it.

# The flags that xcaddy builds with, for all of it: one set means that Caddy is
# compiled once, and once more with the race detector. GOFLAGS from outside stay.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=nobadger,nomysql,nopgx)

BIN  := $(CURDIR)/bin
TOOL := go tool -modfile=tools/go.mod
# cgo is for the race detector alone; xcaddy builds without, and so does this.
STATIC := CGO_ENABLED=0

.DEFAULT_GOAL := help
.PHONY: help build test test-deps demo demo-fallback check fuzz bench xcaddy fmt clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile

build: ## Build edge-relay, edge-watchdog and edge-sidecar in bin/, static, with xcaddy's flags
	$(STATIC) go build -ldflags "-w -s" -o $(BIN)/edge-relay ./xcaddy/relay
	$(STATIC) go build -ldflags "-w -s" -o $(BIN)/edge-watchdog ./xcaddy/watchdog
	$(STATIC) go build -ldflags "-w -s" -o $(BIN)/edge-sidecar ./sidecar/edge-sidecar

test-deps:
	@tools/install-test-deps

test: test-deps build ## Run every test with the race detector; installs what they need as Debian packages
	CGO_ENABLED=1 EDGE_BIN_DIR=$(BIN) go run ./internal/testrun -race -shuffle=on -timeout 20m ./...

demo: build ## Show gateways and the relay die, and what visitors see
	EDGE_BIN_DIR=$(BIN) go run ./e2e/demo

demo-fallback: build ## Show one home run the other's services, and hand them back
	EDGE_BIN_DIR=$(BIN) go run ./e2e/demofallback

check: build ## Check format, vet, go fix, staticcheck, go.mod and every file in configs/
	@echo gofumpt; files=$$($(STATIC) $(TOOL) gofumpt -l .) && test -z "$$files" || { echo "$$files: run make fmt"; exit 1; }
	@echo vet; $(STATIC) go vet ./...
	@echo go fix; diff=$$($(STATIC) go fix -diff ./...) && test -z "$$diff" || { echo "$$diff"; exit 1; }
	@echo staticcheck; $(STATIC) $(TOOL) staticcheck ./...
	@echo go mod tidy; go mod tidy -diff && go -C tools mod tidy -diff
	@tools/check-configs $(BIN)/edge-relay

fmt: ## Format all Go code
	$(STATIC) $(TOOL) gofumpt -w .

fuzz: ## Run each fuzz target for 10 seconds
	@for package in $$(go list ./relay/... ./watchdog/... ./sidecar/... ./caddymodule/...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime 10s $$package || exit 1; \
		done; \
	done

bench: ## Run the benchmarks of relay/ and watchdog/ (minutes)
	go test -run '^$$' -bench . -benchmem -benchtime 1s ./relay/... ./watchdog/...

xcaddy: ## Build bin/caddy from this checkout as a user would, with xcaddy
	@mkdir -p $(BIN)
	$(TOOL) xcaddy build v2.11.9 --with github.com/mholt/caddy-l4@v0.1.2 \
		--with github.com/edgeward/edgeward/caddymodule/edge --replace github.com/edgeward/edgeward=. --output $(BIN)/caddy

clean: ## Remove what was built
	rm -rf $(BIN)
