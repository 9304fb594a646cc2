# edge-relay, long form: edge_sni and edge_pool as caddy-l4 modules.
. "$(dirname "${BASH_SOURCE[0]}")/edge-listen.sh"
PORT=21053
ADMIN=127.0.0.1:21153
edge_cfg() { edge_head; cat <<CFG
	}
	layer4 {
		127.0.0.1:$PORT {
			@refused edge_sni refused.example.com
			route @refused {
				edge_pool refused
				close
			}
			@blackhole edge_sni blackhole.example.com
			route @blackhole {
				edge_pool blackhole
				close
			}
			@app edge_sni app.example.com *.example.com
			route @app {
				edge_pool app
			}
		}
	}
}
CFG
}
SCALES=""
