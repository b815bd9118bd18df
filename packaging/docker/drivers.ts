/**
 * For the image's build: makes the drivers of the engines dependencies, so that `npm prune --omit=dev` keeps them. Their
 * versions are those of the lockfile, which has them for the tests.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const drivers = ['pg', 'mysql2', '@redis/client']

interface Manifest {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  peerDependencies: Record<string, string>
}

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest
for (const driver of drivers) {
  const version = manifest.devDependencies[driver]
  if (version === undefined) throw new Error(`package.json pins no ${driver} among its devDependencies`)
  manifest.dependencies[driver] = version
  delete manifest.devDependencies[driver]
  delete manifest.peerDependencies[driver]
}
writeFileSync('package.json', `${JSON.stringify(manifest, null, 2)}\n`)
