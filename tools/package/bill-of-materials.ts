/**
 * The bill of materials (CycloneDX) of what the package ships and installs. npm knows every package of the lockfile;
 * this keeps those that a user gets: the dependencies with all that they need, and what the dashboard's bundle took in.
 * `npm sbom --omit=dev` is not enough: it leaves out the bundle, and dependencies that are also a tool of this checkout.
 *
 * The same lockfile gives the same bytes: there is no time in it, and its serial number is made from its contents.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'

export interface Component {
  readonly 'bom-ref': string
  readonly name: string
  readonly version: string
  readonly properties?: readonly { readonly name: string; readonly value: string }[]
}

export interface Bill {
  readonly serialNumber: string
  readonly metadata: { readonly timestamp?: string; readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[]
}

export interface Shipped {
  readonly name: string
  /** Installed with the package. */
  readonly dependencies: readonly string[]
  /** In the dashboard's bundle. */
  readonly bundled: readonly string[]
}

/** What npm says about everything in the lockfile. */
export function readLockfileBill(root: string): Bill {
  const args = ['sbom', '--sbom-format=cyclonedx', '--package-lock-only', '--workspaces=false']
  const { status, stdout, stderr, error } = spawnSync('npm', args, {
    cwd: root,
    encoding: 'utf8',
    timeout: 120_000,
    maxBuffer: 2 ** 26,
  })
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed: ${error ?? stderr}`)
  return JSON.parse(stdout) as Bill
}

/** The part of the bill that a user gets. */
export function billOfShipped(bill: Bill, shipped: Shipped): Bill {
  const dependsOn = new Map(bill.dependencies.map(({ ref, dependsOn = [] }) => [ref, dependsOn]))
  const roots = dependsOn.get(bill.metadata.component['bom-ref']) ?? []
  const refOf = (name: string) => {
    const ref =
      roots.find((one) => one.startsWith(`${name}@`)) ??
      bill.components.find((one) => one.name === name)?.['bom-ref']
    if (ref === undefined)
      throw new Error(`The lockfile has no package "${name}". Run "npm ci", then build again.`)
    return ref
  }
  const installed = shipped.dependencies.map(refOf)
  const kept = new Set(installed)
  for (const ref of kept) for (const next of dependsOn.get(ref) ?? []) kept.add(next)
  const bundled = new Set(shipped.bundled.map(refOf))
  const isShipped = (ref: string) => kept.has(ref) || bundled.has(ref)
  const { timestamp: _, ...metadata } = bill.metadata
  const component = { ...metadata.component, name: shipped.name }
  const own = component['bom-ref']
  const contents = {
    metadata: { ...metadata, component },
    components: bill.components.filter((one) => isShipped(one['bom-ref'])).map(withoutDevelopment),
    dependencies: [
      { ref: own, dependsOn: [...new Set([...installed, ...bundled])] },
      ...bill.dependencies
        .filter(({ ref }) => ref !== own && isShipped(ref))
        .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter(isShipped) })),
    ],
  }
  return { ...bill, serialNumber: serialNumberOf(contents), ...contents }
}

/** For this checkout it is a tool; for a user it is a part. */
function withoutDevelopment(component: Component): Component {
  const properties = component.properties?.filter(({ name }) => name !== 'cdx:npm:package:development')
  return { ...component, ...(properties === undefined ? {} : { properties }) }
}

/** A UUID of version 8: its bits are those of a hash. */
function serialNumberOf(contents: object): string {
  const bytes = createHash('sha256').update(JSON.stringify(contents)).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const uuid = bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  return `urn:uuid:${uuid}`
}
