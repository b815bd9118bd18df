import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { aptInstall } from './apt.ts'
import { binaryFolders, findBinary } from './binary.ts'
import { createFolder } from './folder.ts'
import { startProgram } from './program.ts'
import { startOnFreePort } from './ready.ts'
import { allowedSources, findSource, type Places } from './source.ts'

const places: Places<string> = {
  environment: () => process.env.SIGNALBOX_TEST_NGINX || undefined,
  installed: () => findInstalled(),
  apt: async () => ((await aptInstall(['nginx-light'])) ? findInstalled() : undefined),
  otherwise: 'no nginx: set SIGNALBOX_TEST_NGINX=/path/to/nginx, or install nginx-light',
}

function findInstalled(): string | undefined {
  return findBinary('nginx', binaryFolders(process.env))
}

export interface NginxOptions {
  /** The port of 127.0.0.1 behind it. */
  readonly upstreamPort: number
  /** Whether nginx reads the whole body of a request before it sends any of it on. */
  readonly buffersRequests: boolean
}

/** An nginx in front of a server. It keeps connections to the server, and forwards upgrade requests. */
export interface Nginx extends AsyncDisposable {
  readonly port: number
  /** The last lines of its log: warnings and errors. */
  tail(): string
}

export async function startNginx(options: NginxOptions): Promise<Nginx> {
  const { found } = await findSource(places, allowedSources(process.env))
  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder('nginx'))
  await mkdir(join(folder.path, 'logs'), { recursive: true })
  const { program, port } = await startOnFreePort(
    async (port) => {
      const file = join(folder.path, 'nginx.conf')
      await writeFile(file, configurationOf(port, folder.path, options))
      return startProgram(found, ['-e', 'stderr', '-p', folder.path, '-c', file])
    },
    (port) => canConnect(port),
  )
  kept.use(program)
  const owned = kept.move()
  return { port, tail: () => program.tail(), [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

function configurationOf(
  port: number,
  folder: string,
  { upstreamPort, buffersRequests }: NginxOptions,
): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
daemon off;
${process.getuid?.() === 0 ? 'user root;' : ''}
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 2048; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  keepalive_requests 1000000;
  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
  upstream signalbox {
    server 127.0.0.1:${upstreamPort} max_fails=0;
    keepalive 8;
    keepalive_requests 1000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://signalbox;
      proxy_http_version 1.1;
      proxy_next_upstream off;
      proxy_request_buffering ${buffersRequests ? 'on' : 'off'};
      proxy_set_header Host 127.0.0.1:${upstreamPort};
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }
  }
}
`
}

function canConnect(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve()
    })
    socket.once('error', reject)
  })
}
