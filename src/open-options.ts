import { onlyKeys } from './core/options.ts'
import { dispatchDefaults } from './dispatch/index.ts'
import { jobsOptionKeys } from './jobs/index.ts'
import { locksDefaults } from './locks/index.ts'
import { monitorDefaults } from './monitor/index.ts'
import { onceDefaults } from './once/index.ts'

/** The options of `open` for a store, by name. */
const storeKeys = [
  'namespace',
  'migrate',
  'retentionMs',
  'thread',
  'redis',
  'guards',
  'jobs',
  'locks',
  'once',
  'monitor',
  'dispatch',
  'allowPrivate',
  'secretKey',
  'clock',
  'contention',
  'series',
  'alerts',
  'telemetry',
] as const

/** The options of `open` for servers, by name. */
const remoteKeys = ['token', 'namespace', 'timeoutMs', 'retries', 'fetch', 'jobs', 'telemetry'] as const

/** The options of each module. `allowPrivate` belongs to the monitor, but is given at the top level. */
const moduleKeys: Readonly<Record<string, readonly string[]>> = {
  jobs: jobsOptionKeys,
  locks: Object.keys(locksDefaults),
  once: Object.keys(onceDefaults),
  monitor: Object.keys(monitorDefaults).filter((key) => key !== 'allowPrivate'),
  dispatch: Object.keys(dispatchDefaults),
}

/** Refuses unknown options for a store. For an option in the wrong place, the message says where it belongs. */
export function checkStoreOptions(options: object): void {
  onlyKeys('open', options, storeKeys, (key) => placeOf(key, 'store'))
  const { monitor } = options as { readonly monitor?: unknown }
  if (monitor !== undefined)
    onlyKeys('open.monitor', monitor, moduleKeys.monitor!, (key) => placeOf(key, 'store'))
}

/** The same for servers. */
export function checkRemoteOptions(options: object): void {
  onlyKeys('open', options, remoteKeys, (key) => placeOf(key, 'remote'))
}

/** A sentence that says where an option belongs; undefined when no part of `open` has it. */
function placeOf(key: string, box: 'store' | 'remote'): string | undefined {
  const isOf = (keys: readonly string[]) => keys.includes(key)
  const modules = Object.keys(moduleKeys).filter((name) => isOf(moduleKeys[name]!))
  if (box === 'remote' && !isOf(jobsOptionKeys))
    return isOf(storeKeys) || modules.length > 0
      ? 'This box is on a server: set it there, or open the database itself.'
      : undefined
  if (isOf(storeKeys)) return `It belongs at the top level: open(url, { ${key} }).`
  const [module] = modules
  const places = [
    ...(module === undefined
      ? []
      : [`It belongs to ${modules.join(' or ')}: open(url, { ${module}: { ${key} } }).`]),
    ...(isOf(remoteKeys) ? ['A box on a server has it: open("https://…").'] : []),
  ]
  return places.length === 0 ? undefined : places.join(' ')
}
