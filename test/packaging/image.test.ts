import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, matchesGlob } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'vitest'
import { parse } from 'yaml'
import { resolveConfig } from '../../src/cli/config/config.ts'
import { verbs } from '../../src/cli/verbs.ts'
import { readSource, root } from '../house/sources.ts'

const run = promisify(execFile)

/** The Dockerfile's instructions: continued lines joined, comments left out. */
async function instructions(): Promise<readonly (readonly [name: string, rest: string])[]> {
  const text = await readSource('Dockerfile')
  const lines = text.replaceAll(/^#.*\n/gm, '').replaceAll(/\\\n\s*/g, '')
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)])
}

async function of(wanted: string): Promise<readonly string[]> {
  return (await instructions()).filter(([name]) => name === wanted).map(([, rest]) => rest)
}

/** Settings that a server in a fresh container would get, as the server itself reads them. */
function resolved(env: Readonly<Record<string, string>>) {
  return resolveConfig({ flags: {}, env, folder: join(root, 'packaging') }).values
}

async function imageVariables(): Promise<Readonly<Record<string, string>>> {
  const pairs = (await of('ENV')).flatMap((line) => line.split(/\s+/)).map((pair) => pair.split('=', 2))
  return Object.fromEntries(pairs) as Record<string, string>
}

test('all sources of the image exist, and the build gets them', async () => {
  const ignored = (await readSource('.dockerignore')).split('\n').filter((line) => /^[^#]/.test(line))
  const sent = ignored.filter((line) => line.startsWith('!')).map((line) => line.slice(1))
  const copies = (await of('COPY')).filter((line) => !line.startsWith('--from'))
  const sources = copies.flatMap((line) => line.split(' ').slice(0, -1))
  assert.ok(sources.includes('package-lock.json') && sources.includes('src'))
  for (const source of sources) {
    assert.ok(existsSync(root + source), `${source} is not there`)
    assert.ok(
      sent.some((entry) => source === entry || matchesGlob(source, `${entry}/**`)),
      `.dockerignore keeps ${source} back`,
    )
  }
  for (const entry of sent)
    assert.ok(existsSync(root + entry), `.dockerignore sends ${entry}, which is not there`)
})

test('every stage of the image uses the given base, also by its digest', async () => {
  assert.deepEqual(await of('ARG'), ['NODE_IMAGE=node:24-slim'])
  const bases = (await of('FROM')).map((line) => line.split(' ')[0])
  const base = '$' + '{NODE_IMAGE}'
  assert.deepEqual(bases, [base, base])
  const { engines } = JSON.parse(await readSource('package.json')) as { engines: { node: string } }
  assert.equal(engines.node, '>=24')
  for (const page of ['Dockerfile', 'docs/packaging.md'])
    assert.match(await readSource(page), /--build-arg NODE_IMAGE=node:24-slim@sha256:/, page)
})

test('the image contains no second Node', async () => {
  const npm = (await of('RUN'))
    .flatMap((line) => line.split(' && '))
    .filter((line) => /^npm (ci|prune)/.test(line))
  assert.equal(npm.length, 2)
  for (const line of npm) assert.match(line, / --workspaces=false$/)
})

test('the start command of the image exists and is a command of Signalbox', async () => {
  const [entry, command, health] = [await of('ENTRYPOINT'), await of('CMD'), await of('HEALTHCHECK')]
  const words = [entry[0]!, health[0]!.slice(health[0]!.indexOf('['))].map(
    (list) => JSON.parse(list) as string[],
  )
  for (const [program, file] of words) {
    assert.equal(program, 'node')
    assert.ok(existsSync(root + file!.replace(/^\/app\//, '')), file)
  }
  const [verb] = JSON.parse(command[0]!) as string[]
  assert.ok(verbs.some(({ name }) => name === verb))
  const { bin } = JSON.parse(await readSource('package.json')) as { bin: Record<string, string> }
  assert.match((await of('RUN')).join('\n'), new RegExp(`ln -s /app/${bin.signalbox!.slice(2)} `))
  assert.deepEqual(await of('USER'), ['1000:1000'])
})

test('the server accepts the settings of the image, and its data is in the volume', async () => {
  const values = resolved(await imageVariables())
  assert.equal(values.host, '0.0.0.0')
  assert.deepEqual(values.allowedHosts, ['localhost', '127.0.0.1'])
  const [volume] = await of('VOLUME')
  assert.equal(values.database, `sqlite:${volume}/signalbox.db`)
  assert.deepEqual(await of('EXPOSE'), [String(values.port)])
})

test('the server accepts the settings in compose.yaml', async () => {
  const compose = parse(await readSource('compose.yaml'))
  // `${NAME:-default}` stands for its default.
  const given = Object.entries<string>(compose.services.signalbox.environment).map(([name, value]) => [
    name,
    value.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1'),
  ])
  const values = resolved({ ...(await imageVariables()), ...Object.fromEntries(given) })
  assert.equal(values.database, 'postgres://signalbox:signalbox@postgres/signalbox')
  assert.equal(values.redis, 'redis://redis')
  assert.ok(values.allowedHosts.includes('localhost') && values.allowedHosts.includes('signalbox'))
  assert.ok(Number.parseInt(compose.services.signalbox.stop_grace_period, 10) * 1_000 > values.grace + 5_000)
})

test('compose.yaml publishes only to this machine, and waits for its services', async () => {
  const { services, volumes } = parse(await readSource('compose.yaml'))
  assert.deepEqual(services.signalbox.ports, ['127.0.0.1:7420:7420'])
  for (const name of Object.keys(services.signalbox.depends_on)) {
    assert.ok(services[name].healthcheck, `${name} has no health check to wait for`)
    assert.equal(services[name].ports, undefined, `${name} is for the services of this file`)
  }
  const mounted = Object.values<{ volumes: string[] }>(services).flatMap((one) => one.volumes)
  assert.deepEqual(mounted.map((line) => line.split(':')[0]).sort(), Object.keys(volumes).sort())
})

/** The image's entry as it lies in the image, before a command line that shows what it was given. */
async function container(): Promise<
  AsyncDisposable & { start(env: object, ...args: string[]): Promise<Started>; token(): string }
> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-image-'))
  await cp(join(root, 'packaging/docker'), join(folder, 'packaging/docker'), { recursive: true })
  await mkdir(join(folder, 'dist/cli'), { recursive: true })
  await mkdir(join(folder, 'data'))
  await writeFile(
    join(folder, 'dist/cli/main.js'),
    'console.log(JSON.stringify({ args: process.argv.slice(2), file: process.env.SIGNALBOX_TOKEN_FILE }))',
  )
  return {
    token: () => join(folder, 'data/token'),
    async start(env, ...args) {
      const entry = join(folder, 'packaging/docker/start.ts')
      const { SIGNALBOX_TOKEN: _, SIGNALBOX_TOKEN_FILE: __, ...clean } = process.env
      const options = { cwd: join(folder, 'data'), env: { ...clean, ...env } }
      const { stdout, stderr } = await run(process.execPath, [entry, ...args], options)
      return { ...(JSON.parse(stdout) as { args: string[]; file?: string }), said: stderr }
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  }
}

interface Started {
  readonly args: readonly string[]
  readonly file?: string
  readonly said: string
}

test('the first start in a container creates a secret that only the server can read; the next keeps it', async () => {
  await using image = await container()
  const first = await image.start({}, 'serve', '--json')
  assert.deepEqual([first.args, first.file], [['serve', '--json'], image.token()])
  assert.equal((await stat(image.token())).mode & 0o777, 0o600)
  const secret = await readFile(image.token(), 'utf8')
  assert.match(secret, /^[0-9a-f]{64}\n$/)
  assert.match(first.said, /cat .*token/)
  assert.ok(!first.said.includes(secret.trim()), 'it is not printed')
  // As the server reads it.
  const env = { ...(await imageVariables()), SIGNALBOX_TOKEN_FILE: image.token() }
  assert.deepEqual(resolveConfig({ flags: {}, env, folder: root }).secrets, [secret.trim()])
  const [one, other] = await Promise.all([image.start({}, 'serve'), image.start({}, 'serve')])
  assert.deepEqual([one.file, other.file], [image.token(), image.token()])
  assert.equal(await readFile(image.token(), 'utf8'), secret)
})

test('a container with a given secret, or one that does not serve, creates none', async () => {
  await using image = await container()
  for (const [env, ...args] of [
    [{ SIGNALBOX_TOKEN: 'x' }, 'serve'],
    [{ SIGNALBOX_TOKEN_FILE: '/run/token' }, 'serve'],
    [{}, 'serve', '--token-file=/run/token'],
    [{}, 'serve', '--help'],
    [{}, 'token', 'create'],
  ] as const) {
    await image.start(env, ...args)
    assert.ok(!existsSync(image.token()), args.join(' '))
  }
})

test('the image contains the driver of every engine, at the tested version', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-drivers-'))
  try {
    const manifest = JSON.parse(await readSource('package.json'))
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest))
    await run(process.execPath, [join(root, 'packaging/docker/drivers.ts')], { cwd: folder })
    const { dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
    const drivers = Object.keys(manifest.peerDependencies).filter(
      (name) => !name.startsWith('@opentelemetry/'),
    )
    assert.equal(drivers.length, 3)
    for (const name of drivers) assert.equal(dependencies[name], manifest.devDependencies[name], name)
    for (const [name, version] of Object.entries(manifest.dependencies))
      assert.equal(dependencies[name], version)
  } finally {
    await rm(folder, { recursive: true })
  }
})
