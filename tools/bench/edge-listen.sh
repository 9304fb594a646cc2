# edge-relay, short form: its own listener and event loops.
PORT=21050
ADMIN=127.0.0.1:21150
EDGE=${EDGE:?path of the edge-relay binary}
edge_env() { export HOME=$RUN XDG_DATA_HOME=$RUN/$NAME.data XDG_CONFIG_HOME=$RUN/$NAME.conf; }
edge_head() { cat <<CFG
{
	admin $ADMIN
	persist_config off
	edge {
		gateway app {
			dial $ORIGIN
		}
		gateway refused {
			dial $REFUSED
		}
		gateway blackhole {
			dial $BLACKHOLE
		}
		pool app {
			members app
		}
		pool refused {
			members refused
		}
		pool blackhole {
			members blackhole
		}
CFG
}
edge_cfg() { edge_head; cat <<CFG
		listen 127.0.0.1:$PORT {
			limit per_source 20000 total 20000
			route app.example.com *.example.com pool app
			route refused.example.com pool refused
			route blackhole.example.com pool blackhole
			log ${EDGE_LOG:-off}
		}
	}
}
CFG
}
relay_start() { edge_env; edge_cfg >$RUN/$NAME.caddyfile; exec "$EDGE" run --config $RUN/$NAME.caddyfile --adapter caddyfile; }
relay_reload() { edge_env; "$EDGE" reload --force --config $RUN/$NAME.caddyfile --adapter caddyfile --address $ADMIN; }
SCALES="map"
relay_scale() { # $1 folder with names.txt, $2 port
  edge_env
  { edge_head
    printf '\t\tlisten 127.0.0.1:%s {\n\t\t\tlimit per_source 20000 total 20000\n\t\t\tlog off\n\t\t\troute' "$2"
    tr '\n' ' ' <"$1/names.txt" | sed 's/^/ /'
    printf 'pool app\n\t\t}\n\t}\n}\n'
  } >$RUN/$NAME-scale.caddyfile
  exec "$EDGE" run --config $RUN/$NAME-scale.caddyfile --adapter caddyfile
}
