import type { TestProject } from 'vitest/node'
import { chooseServices } from './choice.ts'
import { startServices } from './index.ts'

/** Starts every service once for the whole run; vitest calls the returned function at its end. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { wanted, leftOut } = chooseServices(process.env)
  if (leftOut.length > 0) console.log(`[services] left out by SIGNALBOX_TEST_SERVICES: ${leftOut.join(', ')}`)
  const services = await startServices(wanted, ({ name, version, from }, ms) => {
    console.log(`[services] ${name} ${version}, ${from}, ${ms} ms`)
  }).catch(withoutStack)
  const facts = services.list.map(({ name, url, version, from }) => [name, { url, version, from }] as const)
  project.provide('services', Object.fromEntries(facts))
  return () => services[Symbol.asyncDispose]()
}

/** The message names the missing service; vitest's stack to this line would only hide it. */
function withoutStack(error: Error): never {
  error.stack = error.message
  throw error
}
