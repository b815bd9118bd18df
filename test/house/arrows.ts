import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import { type Import, scanImports } from './imports.ts'
import type { Sources } from './sources.ts'

/**
 * Which module may import which. An import that is not in the table is refused; a new module starts with its entry
 * here. `.` is src/index.ts, the face of the whole package. A folder inside another is a separate module if it has an
 * entry.
 */
export const arrows: Readonly<Record<string, readonly string[]>> = {
  core: [],
  'work-queue': ['core'],
  contention: ['core'],
  'fleet/workers': ['core'],
  jobs: ['core', 'contention', 'fleet/workers'],
  'locks/rules': ['core'],
  locks: ['core', 'contention', 'locks/rules'],
  once: ['core', 'contention'],
  monitor: ['core', 'access', 'contention', 'once', 'jobs'],
  dispatch: ['core', 'contention', 'jobs', 'once'],
  'fleet/alerts': ['core', 'monitor'],
  // Pure: how counts add up, and what they call for.
  'fleet/rules': [],
  fleet: ['core', 'fleet/rules', 'fleet/workers', 'jobs'],
  access: ['core'],
  audit: ['core'],
  'http/contract': ['core'],
  'http/client': ['core', 'http/contract'],
  'http/remote': [
    'core',
    'http/contract',
    'http/client',
    'fleet/workers',
    'jobs',
    'locks',
    'once',
    'monitor',
    'dispatch',
    'fleet',
  ],
  storage: ['core', 'locks/rules', 'fleet/rules'],
  copy: ['core', 'storage'],
  'http/server': [
    'core',
    'http/contract',
    'access',
    'audit',
    'contention',
    'fleet/workers',
    'jobs',
    'locks',
    'once',
    'monitor',
    'dispatch',
    'fleet',
    'fleet/alerts',
    'fleet/rules',
  ],
  cli: [
    'core',
    'access',
    'http/server',
    'http/client',
    'http/remote',
    'storage',
    'copy',
    'jobs',
    'locks',
    'fleet/alerts',
    'monitor',
    'dispatch',
    'demo',
    '.',
  ],
  testing: ['core', 'jobs', 'locks', '.'],
  demo: ['core', 'http/client', '.'],
  '.': [
    'core',
    'access',
    'http/remote',
    'contention',
    'jobs',
    'locks',
    'once',
    'fleet/alerts',
    'monitor',
    'dispatch',
    'fleet',
    'storage',
    'http/client',
  ],
}

/** The modules whose records the contract describes. */
const describedModules = [
  'access',
  'audit',
  'fleet',
  'fleet/alerts',
  'fleet/workers',
  'jobs',
  'locks',
  'once',
  'monitor',
  'dispatch',
  'contention',
]

/** Modules that know the services by their types alone: the records and the store interfaces. */
const typeArrows: Readonly<Record<string, readonly string[]>> = {
  storage: ['access', 'audit', 'fleet', 'fleet/workers', 'jobs', 'locks', 'once', 'monitor', 'dispatch'],
  'http/contract': describedModules,
  // The verbs of the client are those of the services.
  'http/client': describedModules,
  'http/server': ['storage'],
}

/** The files of such types, besides index.ts: a module's store interfaces and the files that hold its records. */
const recordFiles = [
  'job-store.ts',
  'job.ts',
  'dependencies/dependency-store.ts',
  'schedules/schedule-store.ts',
  'logs/log-store.ts',
  'attempts/attempt-store.ts',
  'lock-store.ts',
  'lock.ts',
  'guard-store.ts',
  'monitor-store.ts',
  'report/report.ts',
  'node.ts',
  'cluster/cluster-store.ts',
  'token-store.ts',
  'audit-store.ts',
  'series/series-store.ts',
  'recorder.ts',
  'backend.ts',
]

/** Pure files that stores run inside a transaction: they load nothing themselves. */
const ruleFiles = ['monitor/delivery/sending-end.ts']

/** Modules that the browser uses too. */
const withoutNode = ['core', 'http/contract', 'http/client']
/** Modules that use no package at all. */
const withoutPackages = ['core', 'work-queue']

/** Every import that goes against an arrow, as a sentence. */
export function findTurnedArrows(sources: Sources): readonly string[] {
  const problems: string[] = []
  for (const [path, source] of sources) {
    for (const found of scanImports(source)) {
      const problem = judgeImport(path, found, sources)
      if (problem) problems.push(`${path} imports ${found.specifier ?? 'a computed name'}: ${problem}`)
    }
  }
  return problems
}

function judgeImport(path: string, { specifier, typeOnly }: Import, sources: Sources): string | undefined {
  const module = moduleOf(path)
  if (!typeOnly && ruleFiles.some((file) => path === `src/${file}`)) return 'a pure file takes only types'
  if (specifier === undefined) return 'what is imported must be readable in the source'
  if (!specifier.startsWith('.')) return judgePackage(module, specifier)

  const target = posix.join(posix.dirname(path), specifier)
  if (!sources.has(target)) return 'there is no such source file under src'
  const targetModule = moduleOf(target)
  if (targetModule === module) return undefined
  if (!(module in arrows)) return `the module "${module}" has no line in the table of arrows`

  const file = target.slice(targetModule === '.' ? 'src/'.length : `src/${targetModule}/`.length)
  if (arrows[module]!.includes(targetModule)) {
    if (targetModule === 'core' || file === 'index.ts') return undefined
    // The package's entry and the command line choose an engine by the one function that does so.
    if (targetModule === 'storage' && file === 'open.ts') return undefined
    return `${module} reaches ${targetModule} by its index.ts alone`
  }
  if (typeArrows[module]?.includes(targetModule)) {
    if (module === 'storage' && ruleFiles.includes(`${targetModule}/${file}`)) return undefined
    if (!typeOnly) return `${module} takes only types from ${targetModule} (import type)`
    return file === 'index.ts' || recordFiles.includes(file)
      ? undefined
      : `${module} takes records and store interfaces only`
  }
  return `there is no arrow from ${module} to ${targetModule}`
}

function judgePackage(module: string, specifier: string): string | undefined {
  const [name] = specifier.split('/')
  if (name === 'signalbox') return 'inside src a file is imported by its path'
  const isBuiltin = specifier.startsWith('node:') || builtinModules.includes(specifier)
  if (isBuiltin && withoutNode.includes(module))
    return `${module} also runs in the browser, which has no such module`
  if (!isBuiltin && withoutPackages.includes(module)) return `${module} uses no packages`
  return undefined
}

/** The module of a file: the deepest folder that has an entry in the table, else the first folder. */
export function moduleOf(path: string): string {
  const [, ...folders] = path.split('/').slice(0, -1)
  for (let depth = folders.length; depth > 0; depth--) {
    const name = folders.slice(0, depth).join('/')
    if (name in arrows) return name
  }
  return folders[0] ?? '.'
}

/**
 * Every circle of files that load each other, as `a -> b -> a`; each once. `import type` does not count: it is removed
 * before anything loads, and a part may name the type of the whole it belongs to.
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
