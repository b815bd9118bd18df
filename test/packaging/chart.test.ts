import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { registerSchema, validate } from '@hyperjump/json-schema/draft-07'
import { test } from 'vitest'
import { parse } from 'yaml'
import { resolveConfig } from '../../src/cli/config/config.ts'
import { settingNames, variableOf } from '../../src/cli/config/settings.ts'
import { getScaling } from '../../src/http/contract/index.ts'
import { readSource, root } from '../house/sources.ts'

const folder = 'packaging/helm/signalbox'
const values = parse(await readSource(`${folder}/values.yaml`))
const schema = JSON.parse(await readSource(`${folder}/values.schema.json`))
const paths = globSync('templates/*', { cwd: root + folder })
const templates = new Map(
  await Promise.all(paths.map(async (path) => [path, await readSource(`${folder}/${path}`)] as const)),
)
const all = [...templates.values()].join('\n')
const deployment = templates.get('templates/deployment.yaml')!

registerSchema(schema, 'https://signalbox.example/values')
const isValid = await validate('https://signalbox.example/values')

type Tree = { [key: string]: Tree | string | number | boolean | null | unknown[] }

/** `database.engine` and so on: every value that is no map, and every map that is empty. */
function leaves(tree: Tree, before = ''): readonly string[] {
  return Object.entries(tree).flatMap(([key, value]) => {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isMap && Object.keys(value).length > 0 && key !== 'resources'
      ? leaves(value as Tree, `${before}${key}.`)
      : [before + key]
  })
}

function withValue(path: string, value: unknown) {
  const given = structuredClone(values)
  const keys = path.split('.')
  const last = keys.pop()!
  let at = given
  for (const key of keys) at = at[key]
  at[last] = value
  return given
}

test('the chart has the version of the package', async () => {
  const { version } = JSON.parse(await readSource('package.json'))
  const chart = parse(await readSource(`${folder}/Chart.yaml`))
  assert.deepEqual([chart.version, chart.appVersion], [version, version])
})

test('the default values of the chart are valid, and mistakes are refused', () => {
  assert.ok(isValid(values).valid)
  assert.ok(isValid(withValue('secretKey.existingSecret', 'keys')).valid)
  for (const [path, value] of [
    ['replicas', '2'],
    ['replicas', -1],
    ['replica', 2],
    ['channelKey', { existingSecret: 'keys', key: 'secret-key' }],
    ['database.engine', 'redis'],
    ['database.url', 'sqlite:x.db'],
    ['database.uri', 'postgres://db'],
    ['redis.url', 'http://redis'],
    ['settings.SIGNALBOX_TOKEN', 'a secret in plain sight'],
    ['settings.SIGNALBOX_SECRET_KEY', 'a key in plain sight'],
    ['settings.SIGNALBOX_DATABASE', 'postgres://db'],
    ['settings.retention', '30d'],
    // Helm would write 20000000 as 2e+07.
    ['settings.SIGNALBOX_MAX_CONNECTIONS', 20_000_000],
    ['allowedHosts', ['https://jobs.example.com']],
    ['service.port', 0],
    ['networkPolicy.from', 'shop'],
    ['networkPolicy.egress.rules', { to: [] }],
    ['networkPolicy.ingress', []],
    ['podDisruptionBudget.maxUnavailable', 0],
  ] as const) {
    assert.equal(isValid(withValue(path, value)).valid, false, `${path}: ${JSON.stringify(value)}`)
  }
  for (const [path, value] of [
    ['database.engine', 'postgres'],
    ['database.url', 'mysql://db/x'],
    ['settings.SIGNALBOX_RETENTION', '30d'],
    ['settings.SIGNALBOX_QUIET_HEALTH', true],
    ['podDisruptionBudget.maxUnavailable', '50%'],
    ['networkPolicy.from', [{ podSelector: { matchLabels: { app: 'shop' } } }]],
    ['allowedHosts', ['jobs.example.com', '[::1]:7420']],
  ] as const) {
    assert.ok(isValid(withValue(path, value)).valid, `${path}: ${JSON.stringify(value)}`)
  }
})

test('KEDA asks the server how many workers a queue calls for, with a read token', () => {
  const text = templates.get('templates/scaledobject.yaml')!
  const [authentication, scaled] = text
    .replaceAll('{{ .Values.scaling.token.existingSecret }}', 'reader')
    .replaceAll('{{ .Values.scaling.token.key }}', 'token')
    .replaceAll(/\{\{ \.min[^}]*\}\}/g, '0')
    .replaceAll(/\{\{ \.max[^}]*\}\}/g, '10')
    .replaceAll('{{ .deployment }}', 'mail-workers')
    .replaceAll('{{ $name }}', 'box')
    .replaceAll(/name: \{\{ printf .*\}\}/g, 'name: box-mail-workers')
    .replaceAll(/url: \{\{ .*\}\}/g, 'url: http://box.jobs.svc:80/v1/scaling?queue=mail')
    .replaceAll(/^.*\{\{.*\}\}.*\n/gm, '')
    .split('---')
    .map((part) => parse(part))
  assert.equal(authentication.kind, 'TriggerAuthentication')
  assert.deepEqual(authentication.spec.secretTargetRef, [
    { parameter: 'token', name: 'reader', key: 'token' },
  ])
  const { spec, kind, metadata } = scaled
  assert.deepEqual(
    [kind, metadata.name, spec.scaleTargetRef.name],
    ['ScaledObject', 'box-mail-workers', 'mail-workers'],
  )
  const [{ type, metricType, metadata: trigger, authenticationRef }] = spec.triggers
  assert.deepEqual([type, metricType, authenticationRef.name], ['metrics-api', 'AverageValue', 'box'])
  // One pod for each worker that is wanted.
  assert.deepEqual([trigger.valueLocation, trigger.targetValue, trigger.authMode], ['wanted', '1', 'bearer'])
  assert.match(text, /http:\/\/%s\.%s\.svc:%v\/v1\/scaling\?%s/)
  assert.equal(getScaling.path, '/v1/scaling')
  const worker = { deployment: 'mail-workers', queue: 'mail' }
  assert.ok(
    isValid(withValue('scaling.workers', [worker, { deployment: 'gpu', service: 'asr', max: 3 }])).valid,
  )
  for (const wrong of [
    { queue: 'mail' },
    { ...worker, service: 'asr' },
    { deployment: 'gpu' },
    { ...worker, min: -1 },
  ])
    assert.equal(isValid(withValue('scaling.workers', [wrong])).valid, false, JSON.stringify(wrong))
})

test('every default value is used, and every used value has a default', () => {
  const used = [...all.matchAll(/\.Values\.([\w.]+)/g)].map(([, path]) => path!.replace(/\.$/, ''))
  const known = leaves(values)
  assert.ok(known.length > 40)
  for (const path of used) assert.ok(known.includes(path), `.Values.${path} is not in values.yaml`)
  for (const path of known) assert.ok(used.includes(path), `${path} of values.yaml is used nowhere`)
})

test('every included template is defined, and every block ends', () => {
  const defined = [...all.matchAll(/define "([\w.]+)"/g)].map(([, name]) => name)
  for (const [, name] of all.matchAll(/include "([\w.]+)"/g)) assert.ok(defined.includes(name), name)
  for (const [path, text] of templates) {
    const begun = text.match(/\{\{-? *(if|with|range|define) /g)?.length ?? 0
    assert.equal(text.match(/\{\{-? *end *-?\}\}/g)?.length ?? 0, begun, path)
  }
})

test('the chart sets only known settings as variables, and Kubernetes adds none', () => {
  const variables = [...deployment.matchAll(/- name: (SIGNALBOX_\w+)/g)].map(([, name]) => name!)
  assert.ok(variables.length >= 6)
  const known = settingNames.map(variableOf)
  for (const name of variables) assert.ok(known.includes(name), name)
  // The variables that the chart sets cannot be set a second time.
  const taken = schema.properties.settings.propertyNames.not.enum
  assert.deepEqual([...taken].sort(), [...new Set([...variables, 'SIGNALBOX_TOKEN'])].sort())
  // A service named signalbox would bring SIGNALBOX_SERVICE_HOST, and the server would not start.
  assert.match(deployment, /^ {6}enableServiceLinks: false$/m)
})

test('the chart accepts only names that the server accepts', () => {
  const helper = templates.get('templates/_names.tpl')!
  assert.match(helper, /ternary "\[\$\(POD_IP\)\]" "\$\(POD_IP\)" \.Values\.ipv6/)
  for (const [host, pod] of [
    ['0.0.0.0', '10.1.2.3'],
    ['::', '[fd00::12]'],
  ]) {
    const env = {
      SIGNALBOX_HOST: host,
      SIGNALBOX_ALLOWED_HOSTS: `${pod},localhost,box.jobs.svc:8080`,
      SIGNALBOX_TOKEN: 'x'.repeat(32),
    }
    assert.equal(resolveConfig({ flags: {}, env, folder: root + folder }).values.allowedHosts[0], pod)
  }
})

test('a pod has the time it needs to stop, and is probed where it answers', () => {
  const { grace } = resolveConfig({ flags: {}, env: {}, folder: root + folder }).values
  assert.ok(values.terminationGracePeriodSeconds * 1_000 >= values.preStopSeconds * 1_000 + grace + 5_000)
  const probes = [...deployment.matchAll(/(\w+)Probe:\s+httpGet:\s+path: (\S+)/g)].map((found) =>
    found.slice(1),
  )
  assert.deepEqual(probes, [
    ['startup', '/livez'],
    ['liveness', '/livez'],
    ['readiness', '/readyz'],
  ])
})

/** A template without its instructions, as it is when everything in it is switched on and nothing is listed. */
function bare(text: string) {
  const name = text.replaceAll('{{ include "signalbox.fullname" . }}', 'box')
  return parse(
    name
      .replaceAll(/^ *\{\{-? include "signalbox\.selector".*$/gm, '      app: box')
      .replaceAll(/^.*\{\{.*\}\}.*\n/gm, ''),
  )
}

test('the network policy opens only the port of the server', () => {
  const { spec, kind, apiVersion } = bare(templates.get('templates/networkpolicy.yaml')!)
  assert.deepEqual([apiVersion, kind], ['networking.k8s.io/v1', 'NetworkPolicy'])
  assert.deepEqual(spec.podSelector, { matchLabels: { app: 'box' } })
  assert.deepEqual(spec.policyTypes, ['Ingress', 'Egress'])
  assert.deepEqual(spec.ingress, [{ ports: [{ port: 'http', protocol: 'TCP' }], from: null }])
  assert.match(deployment, /- name: http\s+containerPort: 7420/)
  // Without the lookup of names it would find no database.
  const ports = spec.egress[0].ports as { port: number; protocol: string }[]
  assert.deepEqual(
    ports.map(({ port, protocol }) => `${port}/${protocol}`),
    ['53/UDP', '53/TCP'],
  )
  assert.deepEqual(values.networkPolicy, { enabled: true, from: [], egress: { enabled: false, rules: [] } })
})
