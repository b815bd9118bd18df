import { type ServiceName, serviceNames } from './service.ts'

/** The services that a run starts, and those that its settings leave out. */
export interface Choice {
  readonly wanted: readonly ServiceName[]
  readonly leftOut: readonly ServiceName[]
}

/**
 * All services, unless the developer asks for fewer: SIGNALBOX_TEST_SERVICES=postgres,redis, or none. In CI that is
 * an error, because a test that was left out there looks like a test that passed.
 */
export function chooseServices(env: NodeJS.ProcessEnv): Choice {
  const asked = env.SIGNALBOX_TEST_SERVICES
  if (asked === undefined) return { wanted: serviceNames, leftOut: [] }

  const names = asked === 'none' ? [] : asked.split(',').map((name) => name.trim())
  const unknown = names.find((name) => !serviceNames.includes(name as ServiceName))
  if (unknown !== undefined) {
    throw new Error(
      `SIGNALBOX_TEST_SERVICES names "${unknown}"; it takes none, or some of ${serviceNames.join(', ')}`,
    )
  }
  const choice = {
    wanted: serviceNames.filter((name) => names.includes(name)),
    leftOut: serviceNames.filter((name) => !names.includes(name)),
  }
  if (choice.leftOut.length > 0 && isCi(env)) {
    throw new Error(
      `SIGNALBOX_TEST_SERVICES leaves out ${choice.leftOut.join(', ')}, but in CI every service is tested; unset it`,
    )
  }
  return choice
}

function isCi(env: NodeJS.ProcessEnv): boolean {
  return !['', '0', 'false'].includes(env.CI ?? '')
}
