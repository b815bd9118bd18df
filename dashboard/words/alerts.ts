import { catalogue } from './catalogue.ts'

export const alertsWords = catalogue({
  rules: { en: 'Alert rules', zh: '告警规则' },
  off: { en: 'Alerts are off', zh: '告警未开启' },
  offNext: {
    en: 'No channel takes alerts, so the server does not check the rules. Write a channel to a file, and add it:',
    zh: '没有接收告警的渠道，因此服务器不检查这些规则。把渠道写入文件，然后添加：',
  },
  command: { en: 'Command', zh: '命令' },
  rule: { en: 'Rule', zh: '规则' },
  state: { en: 'State', zh: '状态' },
  firing: { en: '{count} firing', zh: '{count} 个告警' },
  quiet: { en: 'no problem', zh: '无问题' },
  unwatched: { en: 'no channel', zh: '无渠道' },
  since: { en: 'Since', zh: '开始时间' },
  who: { en: 'Subscribers', zh: '订阅者' },
  more: { en: 'and {count} more', zh: '另有 {count} 个' },
  'dead-jobs': { en: 'A queue has dead jobs.', zh: '队列中有死信作业。' },
  'queue-behind': {
    en: 'The oldest ready job of a queue has waited for long.',
    zh: '队列中最早的就绪作业等待过久。',
  },
  'no-worker': {
    en: 'Jobs are ready, and no live worker takes them.',
    zh: '有就绪作业，但没有在线的工作进程领取。',
  },
  'schedule-missed': { en: 'A schedule should have run and did not.', zh: '定时计划到期未运行。' },
  'lock-waited': { en: 'A request has waited for a lock for long.', zh: '请求等待锁过久。' },
  'node-lost': { en: 'A node is gone without signing off.', zh: '节点未正常下线就失联。' },
  'channel-failing': { en: 'Notifications of a subscription do not arrive.', zh: '订阅的通知未能送达。' },
  'store-slow': { en: 'The store answers slowly.', zh: '存储响应缓慢。' },
})
