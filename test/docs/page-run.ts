/** Starts the runner of a page, and collects its reports. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { root } from '../house/sources.ts'
import { hasService, ownMariadb, ownPostgres, serviceFacts } from '../support/services/own.ts'
import { addressesIn } from './addresses.ts'
import type { Block, Page } from './blocks.ts'
import type { Plan, Report } from './runner.ts'

const runner = join(import.meta.dirname, 'runner.ts')
const pageMs = 240_000

/** A folder for a run's modules: inside the project, so that blocks find its packages; git does not see it. */
export function makeFolder(): string {
  const parent = join(root, '.snippets')
  mkdirSync(parent, { recursive: true })
  // What runs that were killed have left.
  for (const name of readdirSync(parent)) {
    const old = statSync(join(parent, name), { throwIfNoEntry: false })
    if (old !== undefined && old.mtimeMs < Date.now() - 3_600_000)
      rmSync(join(parent, name), { recursive: true, force: true })
  }
  return mkdtempSync(join(parent, 'run-'))
}

/** The prelude of a page: its own, or `box` alone. */
export function preludeOf({ name }: Page): string {
  const folders = ['preludes', 'preludes/server-pages']
  const own = folders.map((folder) => join(import.meta.dirname, folder, `${name}.ts`))
  return own.find((file) => existsSync(file)) ?? join(import.meta.dirname, 'box.ts')
}

export function runnableOf({ blocks }: Page): readonly Block[] {
  return blocks.filter(({ way }) => way !== undefined)
}

/** The servers that a page needs and this run leaves out. */
export function missingFor(page: Page): readonly string[] {
  const needs = needsOf(page)
  return (['postgres', 'mariadb', 'redis'] as const).filter((name) => needs.has(name) && !hasService(name))
}

/** Runs a page; answers what failed, each with its place. */
export async function runPage(page: Page, folder: string): Promise<readonly string[]> {
  const needs = needsOf(page)
  await using postgres = needs.has('postgres') ? await ownPostgres() : null
  await using mariadb = needs.has('mariadb') ? await ownMariadb() : null
  const place = mkdtempSync(join(tmpdir(), 'signalbox-docs-'))
  const modules = join(folder, page.name)
  mkdirSync(modules, { recursive: true })
  const plan: Plan = {
    blocks: runnableOf(page),
    prelude: preludeOf(page),
    folder: modules,
    addresses: {
      postgres: postgres?.url,
      mariadb: mariadb?.url,
      redis: needs.has('redis') ? serviceFacts('redis').url : undefined,
    },
    needsServer: needs.has('server'),
  }
  writeFileSync(join(modules, 'plan.json'), JSON.stringify(plan))
  try {
    return await follow(page, plan, place)
  } finally {
    rmSync(place, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function follow({ path }: Page, { blocks, folder }: Plan, place: string): Promise<readonly string[]> {
  const child = spawn(process.execPath, ['--conditions=source', runner, join(folder, 'plan.json')], {
    cwd: place,
    env: cleanEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    timeout: pageMs,
    killSignal: 'SIGKILL',
  })
  const reported = new Map<number, string | undefined>()
  child.on('message', ({ line, failure }: Report) => reported.set(line, failure))
  const [, said, [code, signal]] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>,
  ])
  const failures = [...reported].filter(([, failure]) => failure !== undefined)
  const complaints = failures.map(([line, failure]) => `${path}:${line}: ${failure}`)
  const unheard = blocks.find(({ line }) => !reported.has(line))
  if (unheard !== undefined || code !== 0) {
    complaints.push(
      `${path}:${unheard?.line ?? 0}: the page's process ended with ${signal ?? code}:\n${said}`,
    )
  }
  return complaints
}

/** The environment of a reader who does not know the tests. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).filter(
    (name) => !/^(SIGNALBOX_|VITEST|NODE_(ENV|OPTIONS)$)/.test(name),
  )
  return Object.fromEntries(names.map((name) => [name, process.env[name]]))
}

function needsOf(page: Page): ReturnType<typeof addressesIn> {
  const prelude = readFileSync(preludeOf(page), 'utf8').replace(
    /'..\/(\.\.\/)?postgres-box\.ts'/g,
    'addresses.postgres',
  )
  const engines = runnableOf(page).map(({ language, info }) =>
    language === 'sql' ? `addresses.${info}` : '',
  )
  return addressesIn([prelude, ...engines, ...runnableOf(page).map(({ text }) => text)].join('\n'))
}
