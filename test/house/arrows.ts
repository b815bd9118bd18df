import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import { type Import, scanImports } from './imports.ts'
import type { Sources } from './sources.ts'

/**
 * The arrows of the house: which room may import which. What is not in the table is not allowed; a new room
 * starts by writing its line here. `.` is src/index.ts, the face of the whole package.
 */
export const arrows: Readonly<Record<string, readonly string[]>> = {
  core: [],
  workqueue: ['core'],
  contention: ['core'],
  jobs: ['core', 'contention'],
  lines: ['core'],
  locks: ['core', 'contention', 'lines'],
  once: ['core', 'contention'],
  monitor: ['core', 'access', 'contention', 'once', 'jobs'],
  dispatch: ['core', 'contention', 'jobs', 'once'],
  access: ['core'],
  audit: ['core'],
  wire: ['core'],
  client: ['core', 'wire'],
  remote: ['core', 'wire', 'client', 'jobs', 'locks', 'once', 'monitor', 'dispatch'],
  backends: ['core', 'lines'],
  copy: ['core', 'backends'],
  server: ['core', 'wire', 'access', 'audit', 'contention', 'jobs', 'locks', 'once', 'monitor', 'dispatch'],
  cli: [
    'core',
    'access',
    'server',
    'client',
    'remote',
    'backends',
    'copy',
    'jobs',
    'locks',
    'monitor',
    'dispatch',
    'demo',
    '.',
  ],
  testing: ['core', 'jobs', 'locks', '.'],
  demo: ['core', 'client', '.'],
  '.': [
    'core',
    'access',
    'remote',
    'contention',
    'jobs',
    'locks',
    'once',
    'monitor',
    'dispatch',
    'backends',
    'client',
  ],
}

/** Rooms that know the services by their types alone: the records, and what they ask of a store. */
const typeArrows: Readonly<Record<string, readonly string[]>> = {
  backends: ['access', 'audit', 'jobs', 'locks', 'once', 'monitor', 'dispatch'],
  wire: ['access', 'audit', 'jobs', 'locks', 'once', 'monitor', 'dispatch', 'contention'],
}

/** The files such types come from, besides index.ts: a room's `store.ts` and the one that holds its record. */
const recordFiles = [
  'store.ts',
  'job.ts',
  'lock.ts',
  'guard.ts',
  'report.ts',
  'node.ts',
  'fleetstore.ts',
  'notestore.ts',
  'meter.ts',
]

/** Rooms that the browser uses too. */
const withoutNode = ['core', 'wire', 'client']
/** Rooms that use no package at all. */
const withoutPackages = ['core', 'workqueue']

/** Every import that goes against an arrow, as a sentence. */
export function findTurnedArrows(sources: Sources): readonly string[] {
  const complaints: string[] = []
  for (const [path, source] of sources) {
    for (const found of scanImports(source)) {
      const complaint = judgeImport(path, found, sources)
      if (complaint) complaints.push(`${path} imports ${found.specifier ?? 'a computed name'}: ${complaint}`)
    }
  }
  return complaints
}

function judgeImport(path: string, { specifier, typeOnly }: Import, sources: Sources): string | undefined {
  const room = roomOf(path)
  if (specifier === undefined) return 'what is imported must be readable in the source'
  if (!specifier.startsWith('.')) return judgePackage(room, specifier)

  const target = posix.join(posix.dirname(path), specifier)
  if (!sources.has(target)) return 'there is no such source file under src'
  const targetRoom = roomOf(target)
  if (targetRoom === room) return undefined
  if (!(room in arrows)) return `the room "${room}" has no line in the table of arrows`

  const file = target.slice(targetRoom === '.' ? 'src/'.length : `src/${targetRoom}/`.length)
  if (arrows[room]!.includes(targetRoom)) {
    if (targetRoom === 'core' || file === 'index.ts') return undefined
    // The face of the package and the command line choose a backend by the one function that does so.
    if (targetRoom === 'backends' && file === 'open.ts') return undefined
    return `${room} reaches ${targetRoom} by its index.ts alone`
  }
  if (typeArrows[room]?.includes(targetRoom)) {
    if (!typeOnly) return `${room} takes only types from ${targetRoom} (import type)`
    return file === 'index.ts' || recordFiles.includes(file)
      ? undefined
      : `${room} takes records and store.ts only`
  }
  return `there is no arrow from ${room} to ${targetRoom}`
}

function judgePackage(room: string, specifier: string): string | undefined {
  const [name] = specifier.split('/')
  if (name === 'signalbox') return 'inside src a file is imported by its path'
  const isBuiltin = specifier.startsWith('node:') || builtinModules.includes(specifier)
  if (isBuiltin && withoutNode.includes(room))
    return `${room} also runs in the browser, which has no such module`
  if (!isBuiltin && withoutPackages.includes(room)) return `${room} uses no packages`
  return undefined
}

/** The room a file is in. */
export function roomOf(path: string): string {
  const [, room, ...rest] = path.split('/')
  return rest.length === 0 ? '.' : room!
}

/**
 * Every circle of files that load each other, as `a -> b -> a`; each once. `import type` does not count: it is gone
 * before anything is loaded, and a part may well name the type of the whole it belongs to.
 */
export function findCycles(sources: Sources): readonly string[] {
  const cycles: string[] = []
  const done = new Set<string>()
  const trail: string[] = []

  function visit(path: string): void {
    const start = trail.indexOf(path)
    if (start >= 0) cycles.push([...trail.slice(start), path].join(' -> '))
    if (start >= 0 || done.has(path)) return
    trail.push(path)
    for (const { specifier, typeOnly } of scanImports(sources.get(path)!)) {
      const target = !typeOnly && specifier?.startsWith('.') ? posix.join(posix.dirname(path), specifier) : ''
      if (sources.has(target)) visit(target)
    }
    trail.pop()
    done.add(path)
  }

  for (const path of sources.keys()) visit(path)
  return cycles
}
